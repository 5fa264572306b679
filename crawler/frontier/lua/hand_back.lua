-- Give leases back without a fetch: no attempt is counted, and the URL is first in its queue again.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2]  now, ms (0 = the shard's time)
-- ARGV[3…] token, delay in ms before the host's next contact: two arguments for each lease
-- Returns  number of settled leases; stale tokens are ignored

numbers(2, 2)
groups(3, 2, 0, 1)
are('zset', HEAP)
for i = 3, #ARGV, 2 do
  local lease = redis.call('HGET', shard .. 'leases:' .. ARGV[1], ARGV[i])
  local host = lease and host_of(entry_of(lease))
  if host then are('hash', shard .. 'host:' .. host) end
end
local now, settled, back = now_ms(ARGV[2]), 0, 0
for i = 3, #ARGV, 2 do
  local token, wait = ARGV[i], tonumber(ARGV[i + 1])
  local entry = take_lease(ARGV[1], token)
  -- A restart lost the claim, and the instance reported the fetch again: the URL waits, and the slot
  -- is taken.
  local flight = not entry and redis.call('HGET', shard .. 'flights:' .. ARGV[1], token)
  if flight then free_slot(flight, token, now + wait, 0) end
  if entry then
    local host = host_of(entry)
    local key = shard .. 'host:' .. host
    local excluded, queue = unpack(redis.call('HMGET', key, 'excluded', 'queue'))
    settled = settled + 1
    if excluded then
      count('dropped_excluded', 1)
      free_slot(host, token, now + wait, 0)
    else
      local number = back_queue(queue_of(entry), queue)
      redis.call('LPUSH', shard .. 'back:' .. host .. ':' .. number, entry)
      if number > PAGE_QUEUES then note_typed(host) end
      redis.call('HINCRBY', key, 'waiting', 1)
      redis.call('PERSIST', key)
      back = back + 1
      free_slot(host, token, now + wait, 0)
      -- If the fetch ended before its URL was handed back, there is no slot to free.
      local tokens, clock = unpack(redis.call('HMGET', key, 'tokens', 'clock'))
      if tokens_in(tokens) == 0 then redis.call('ZADD', HEAP, 'NX', tonumber(clock or 0), host) end
    end
  end
end
count('back', back)
return settled
