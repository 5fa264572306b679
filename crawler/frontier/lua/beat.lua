-- An instance says that it is alive and what it holds; learns which of its leases it lost sight of.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2]  now, ms (0 = the shard's time)
-- ARGV[3]  '1' to register a new instance
-- ARGV[4]  what it says of itself, for people
-- ARGV[5]  ms that claims rest after a restart of the server
-- ARGV[6]  tokens of the leases it holds, separated by blanks; with a '?' where no fetch began or where
--          the page is read: if the instance dies, they are no suspects
-- ARGV[7]  ms since its last beat was answered, by its own clock; '' if there was none
-- ARGV[8]  the epoch that it knows, or ''
-- Returns  {alive, epoch, unknown leases, now, survived, leapt}
--          alive: 0 when the instance was declared dead and must take a new name
--          unknown leases: held here by this owner and not named by it, as claim returns them
--          now: the shard's time, ms
--          survived: the time up to which the server kept what was written, at its last restart; 0 if
--          the shard was empty then
--          leapt: ms that the server's clock went ahead or back in a leap, told to one instance; or 0

local owner, now, grace = ARGV[1], now_ms(ARGV[2]), tonumber(ARGV[5])

-- Somebody who beat before and after a leap of the clock knows whether time has passed, as while the
-- server was away. If nobody comes, none was there: it has.
local function judge_leap(leap, at)
  local before, passed = tonumber(redis.call('ZSCORE', OWNERS, owner) or 0), nil
  if ARGV[7] ~= '' and before > 0 and before <= at then
    passed = tonumber(ARGV[7]) - (now - before) > leap / 2
  elseif now >= at + grace then
    passed = true
  end
  if passed == nil then return end
  redis.call('HDEL', STATS, 'leap_ms', 'leap_at')
  if passed then
    now = follow_clock(now)
    redis.call('HSET', STATS, 'now_ms', digits(now))
  else
    redis.call('HSET', STATS, 'leapt', digits(leap))
  end
end

local leap, at = unpack(redis.call('HMGET', STATS, 'leap_ms', 'leap_at'))
if leap then judge_leap(tonumber(leap), tonumber(at)) end
local current = epoch(now, grace)
local survived = tonumber(redis.call('HGET', STATS, 'survived_ms') or 0)
if ARGV[3] ~= '1' and is_dead(owner) then return {0, current, {}, now, survived, 0} end
-- All was lost while somebody worked on it: others have their time to say what they have in flight.
if ARGV[8] ~= '' and tonumber(ARGV[8]) ~= current then
  redis.call('HSETNX', STATS, 'claims_from', digits(now + grace))
end
redis.call('ZADD', OWNERS, digits(now), owner)
redis.call('HSET', shard .. 'instances', owner, ARGV[4])
local leapt = tonumber(redis.call('HGET', STATS, 'leapt') or 0)
if leapt ~= 0 then redis.call('HDEL', STATS, 'leapt') end
local named, unknown, unsuspected = {}, {}, {}
for token, mark in string.gmatch(ARGV[6], '(%d+)(%??)') do
  named[token] = true
  if mark ~= '' then unsuspected[#unsuspected + 1] = token end
end
redis.call('UNLINK', shard .. 'unsuspected:' .. owner)
for first = 1, #unsuspected, 1000 do
  local last = math.min(first + 999, #unsuspected)
  redis.call('SADD', shard .. 'unsuspected:' .. owner, unpack(unsuspected, first, last))
end
local held = redis.call('HGETALL', shard .. 'leases:' .. owner)
for i = 1, #held, 2 do
  if not named[held[i]] then unknown[#unknown + 1] = held[i + 1] end
end
return {1, current, unknown, now, survived, leapt}
