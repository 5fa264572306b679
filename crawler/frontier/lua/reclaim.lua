-- Take back the leases of instances that stopped beating.
--
-- KEYS[1]  shard
-- ARGV[1]  now, ms (0 = the shard's time)
-- ARGV[2]  silence in ms after which an instance is dead
-- ARGV[3]  maximum number of leases
-- ARGV[4]  delay in ms before a host in flight is contacted again, if its own delay is not known
-- ARGV[5]  dead letters kept
-- Returns  number of leases that were taken back
--
-- An entry counts how often it was taken back, unless it was not to blame at the owner's last beat
-- (see beat.lua). A URL that kills its workers is buried by the next process that claims it.

numbers(5, 1, 2, 3, 4, 5)
fronts_are_lists()
are('hash', STATS, shard .. 'claims', shard .. 'instances')
are('zset', HEAP, OWNERS)
local now, limit, taken = now_ms(ARGV[1]), tonumber(ARGV[3]), 0

local function take_back(key, token, lease, started)
  local entry = entry_of(lease)
  local reclaims = string.byte(entry, 4) + (started and 1 or 0)
  entry = string.sub(entry, 1, 3) .. string.char(math.min(reclaims, 255)) .. string.sub(entry, 5)
  local host = host_of(entry)
  if host then are('hash', shard .. 'host:' .. host) end
  redis.call('HDEL', key, token)
  if not host then return bury_entry(entry, 'damaged', now, ARGV[5]) end
  local delay = tonumber(redis.call('HGET', shard .. 'host:' .. host, 'delay') or ARGV[4])
  free_slot(host, token, now + delay, delay)
  wait_again(entry)
end

-- After a restart of the server nobody could beat for a while: every instance gets the time to do so.
if now < tonumber(redis.call('HGET', STATS, 'claims_from') or 0) then return 0 end
for _, owner in ipairs(redis.call('ZRANGEBYSCORE', OWNERS, '-inf', now - tonumber(ARGV[2]))) do
  if taken >= limit then break end
  redis.call('ZADD', OWNERS, 0, owner)
  local key = shard .. 'leases:' .. owner
  -- Not HSCAN: from a big hash whose first part is empty it returns nothing, again and again.
  local page = redis.call('HRANDFIELD', key, limit - taken, 'WITHVALUES')
  local unsuspected = {}
  for _, token in ipairs(redis.call('SMEMBERS', shard .. 'unsuspected:' .. owner)) do
    unsuspected[token] = true
  end
  for i = 1, #page, 2 do take_back(key, page[i], page[i + 1], not unsuspected[page[i]]) end
  taken = taken + #page / 2
  if redis.call('EXISTS', key) == 0 then forget_owner(owner, now, tonumber(ARGV[4])) end
end
count('reclaimed', taken)
return taken
