-- An instance says that it is alive and what it holds; learns which of its leases it lost sight of.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2]  now, ms (0 = the server's clock)
-- ARGV[3]  '1' to register a new instance
-- ARGV[4]  what it says of itself, for people
-- ARGV[5]  ms that claims rest after a restart of the server
-- ARGV[6]  tokens of the leases it holds, separated by blanks; with a '?' where no fetch began: if the
--          instance dies, they are no suspects
-- Returns  {alive, epoch, unknown leases}
--          alive: 0 when the instance was declared dead and must take a new name
--          unknown leases: held here by this owner and not named by it, as claim returns them

local now = now_ms(ARGV[2])
local current = epoch(now, tonumber(ARGV[5]))
if ARGV[3] ~= '1' and is_dead(ARGV[1]) then return {0, current, {}} end
redis.call('ZADD', OWNERS, now, ARGV[1])
redis.call('HSET', shard .. 'instances', ARGV[1], ARGV[4])
local named, unknown, unstarted = {}, {}, {}
for token, mark in string.gmatch(ARGV[6], '(%d+)(%??)') do
  named[token] = true
  if mark ~= '' then unstarted[#unstarted + 1] = token end
end
redis.call('UNLINK', shard .. 'unstarted:' .. ARGV[1])
for first = 1, #unstarted, 1000 do
  local last = math.min(first + 999, #unstarted)
  redis.call('SADD', shard .. 'unstarted:' .. ARGV[1], unpack(unstarted, first, last))
end
local held = redis.call('HGETALL', shard .. 'leases:' .. ARGV[1])
for i = 1, #held, 2 do
  if not named[held[i]] then unknown[#unknown + 1] = held[i + 1] end
end
return {1, current, unknown}
