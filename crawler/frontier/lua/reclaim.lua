-- Take back the leases of instances that stopped beating.
--
-- KEYS[1]  shard
-- ARGV[1]  now, ms (0 = the server's clock)
-- ARGV[2]  silence in ms after which an instance is dead
-- ARGV[3]  how many leases at the most
-- ARGV[4]  how often one URL may be taken back before it is buried: it kills its workers
-- ARGV[5]  wait in ms before a host in flight is contacted again, when its own delay is not known
-- ARGV[6]  how many dead letters are kept
-- Returns  how many leases were taken back

local now, limit, taken, buried = now_ms(ARGV[1]), tonumber(ARGV[3]), 0, 0
local silent = redis.call('ZRANGEBYSCORE', shard .. 'owners', '-inf', now - tonumber(ARGV[2]))
for _, owner in ipairs(silent) do
  local key = shard .. 'leases:' .. owner
  local page = redis.call('HSCAN', key, 0, 'COUNT', limit)[2]
  for i = 1, #page, 2 do
    if taken >= limit then break end
    local token, start = string.match(page[i + 1], '^(%d+) %S+ ()')
    local entry = string.sub(page[i + 1], start)
    local reclaims = string.byte(entry, 4) + 1
    redis.call('HDEL', key, page[i])
    entry = string.sub(entry, 1, 3) .. string.char(math.min(reclaims, 255)) .. string.sub(entry, 5)
    local host = host_of(entry)
    local delay = tonumber(redis.call('HGET', shard .. 'host:' .. host, 'delay') or ARGV[5])
    free_slot(host, token, now + delay, delay)
    if reclaims >= tonumber(ARGV[4]) then
      redis.call('XADD', shard .. 'dead', 'MAXLEN', '~', ARGV[6], '*', 'entry', entry, 'reason', 'poison')
      buried = buried + 1
    else
      redis.call('LPUSH', shard .. 'front:' .. queue_of(entry), entry)
    end
    taken = taken + 1
  end
  if redis.call('EXISTS', key) == 0 then
    redis.call('ZREM', shard .. 'owners', owner)
    redis.call('HDEL', shard .. 'claims', owner)
  end
end
count('reclaimed', taken)
count('dead', buried)
return taken
