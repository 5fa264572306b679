-- Note that an instance is alive and which leases it holds; return the leases that it does not know,
-- and end the visits that it does not know: the reply to these was lost.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2]  now, ms (0 = the shard's time)
-- ARGV[3]  '1' to register a new instance
-- ARGV[4]  its report about itself, for people
-- ARGV[5]  ms without claims after a restart of the server
-- ARGV[6]  tokens of the leases and visits it holds, separated by blanks. A '?' follows if no fetch has
--          begun, or if the page is read: such leases are not to blame if the instance dies
-- ARGV[7]  ms since its last beat was answered, by its own clock; '' if none was
-- ARGV[8]  epoch that it knows, or ''
-- Returns  {alive, epoch, unknown leases, now, survived, leaps, leapt}
--          alive: 0 when the instance was declared dead and must take a new name
--          unknown leases: leases of this owner that it did not name, as claim returns them
--          now: the shard's time, ms
--          survived: writes up to this time survived the last restart of the server; 0 if none did
--          leaps, leapt: number of leaps of the server's clock that the shard did not follow, and the
--          ms of the last one

numbers(8, 2, 5)
optional(7, 8)
are('zset', OWNERS)
are('hash', shard .. 'instances', shard .. 'leases:' .. ARGV[1], shard .. 'visits:' .. ARGV[1])
local owner, now, grace = ARGV[1], now_ms(ARGV[2]), tonumber(ARGV[5])

-- Decide about a leap of the clock ahead. If an instance beats that also beat before the leap, the
-- shard keeps its time: it is late if time has passed, which is safe. If no such instance comes, all
-- were gone, and time has passed.
local function judge_leap(by, at)
  local before = tonumber(redis.call('ZSCORE', OWNERS, owner) or 0)
  if before > 0 and before <= at then
    -- Has no time passed by its own clock?
    if ARGV[7] ~= '' and tonumber(ARGV[7]) - (now - before) < by / 2 then note_leap(by) end
  elseif now >= at + grace then
    set_skew(skew_ms + by)
    now = now + by
    redis.call('HSET', STATS, 'now_ms', digits(now))
  else
    return
  end
  redis.call('HDEL', STATS, 'leap_ms', 'leap_at')
end

local by, at = unpack(redis.call('HMGET', STATS, 'leap_ms', 'leap_at'))
if by then judge_leap(tonumber(by), tonumber(at)) end
local current = epoch(now, grace)
local survived, leaps, leapt, claims_from = unpack(redis.call('HMGET', STATS, 'survived_ms', 'leaps',
  'leapt_ms', 'claims_from'))
local times = {now, tonumber(survived or 0), tonumber(leaps or 0), tonumber(leapt or 0)}
if ARGV[3] ~= '1' and is_dead(owner) then return {0, current, {}, unpack(times)} end
-- All was lost while instances worked on it: others get the time to report what they have in flight.
if ARGV[8] ~= '' and tonumber(ARGV[8]) ~= current and tonumber(claims_from or 0) <= now then
  redis.call('HSET', STATS, 'claims_from', digits(now + grace))
end
redis.call('ZADD', OWNERS, digits(now), owner)
redis.call('HSET', shard .. 'instances', owner, ARGV[4])
-- See conclude.lua.
redis.call('HSET', STATS, 'running', '1')
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
end_visits(owner, now, UNKNOWN_DELAY_MS, named)
local held = redis.call('HGETALL', shard .. 'leases:' .. owner)
for i = 1, #held, 2 do
  if not named[held[i]] then unknown[#unknown + 1] = held[i + 1] end
end
return {1, current, unknown, unpack(times)}
