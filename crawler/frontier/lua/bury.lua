-- Move leased URLs to the dead-letter queue.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2]  now, ms (0 = the shard's time)
-- ARGV[3]  dead letters kept; older ones are trimmed and counted
-- ARGV[4…] token, reason: two arguments for each lease
-- Returns  number of settled leases; stale tokens are ignored

numbers(3, 2, 3)
groups(4, 2, 0)
are('stream', shard .. 'dead')
are('zset', HEAP)
local now, settled = now_ms(ARGV[2]), 0
for i = 4, #ARGV, 2 do
  local entry = take_lease(ARGV[1], ARGV[i])
  if entry then
    bury_entry(entry, ARGV[i + 1], now, ARGV[3])
    -- A lease whose entry could not be read was never released. Another lease that was not released
    -- may have been fetched, so its host waits for its usual delay.
    local host = host_of(entry)
    if host then
      local delay = tonumber(redis.call('HGET', shard .. 'host:' .. host, 'delay') or 0)
      free_slot(host, ARGV[i], now + delay, 0)
    end
    settled = settled + 1
  end
end
return settled
