-- Conclude a crawl when no instance is left: one of those that signed off learns that it was the last.
--
-- KEYS[1]  shard
-- ARGV[1]  owner, which has signed off
-- ARGV[2]  now, ms (0 = the shard's time)
-- ARGV[3]  silence in ms after which an instance counts as dead
-- ARGV[4]  the shard's time at its first call, ms; 0 at the first call
-- Returns  {verdict, now}
--          verdict: 1: this call concluded the crawl; 0: another one did, or an instance beats that
--          will; -1: ask again, as others are registered that did not beat since the first call
--          now: the shard's time, ms

numbers(4, 2, 3, 4)
local owner, now, first = ARGV[1], now_ms(ARGV[2]), tonumber(ARGV[4])
-- Every beat sets it, so that it is there once for each time that the crawl runs.
if redis.call('HEXISTS', STATS, 'running') == 0 then return {0, now} end
local since = '(' .. digits(now - tonumber(ARGV[3]))
local others = redis.call('ZRANGEBYSCORE', OWNERS, since, '+inf', 'WITHSCORES')
local is_unsure = false
for i = 1, #others, 2 do
  if others[i] ~= owner then
    if first > 0 and tonumber(others[i + 1]) > first then return {0, now} end
    is_unsure = true
  end
end
if is_unsure then return {-1, now} end
return {redis.call('HDEL', STATS, 'running'), now}
