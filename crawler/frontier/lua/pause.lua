-- Pause or resume the crawl: while paused nothing is leased, and fetches in flight finish.
--
-- KEYS[1]  shard
-- ARGV[1]  '1' to pause, '0' to resume
-- Returns  nothing

expect(ARGV[1] == '0' or ARGV[1] == '1', 'pause')
redis.call('HDEL', STATS, 'paused')
if ARGV[1] == '1' then redis.call('HSET', STATS, 'paused', 1) end
