-- An instance says that it is alive.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2]  now, ms (0 = the server's clock)
-- ARGV[3]  '1' to register a new instance
-- Returns  1, or 0 when the instance was declared dead: it must take a new name

local now = now_ms(ARGV[2])
if ARGV[3] ~= '1' and not redis.call('ZSCORE', shard .. 'owners', ARGV[1]) then return 0 end
redis.call('ZADD', shard .. 'owners', now, ARGV[1])
return 1
