-- An instance that holds no lease any more signs off.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- Returns  1, or 0 when it still holds leases: they come back by reclaim

if redis.call('EXISTS', shard .. 'leases:' .. ARGV[1]) == 1 then return 0 end
redis.call('ZREM', OWNERS, ARGV[1])
redis.call('HDEL', shard .. 'claims', ARGV[1])
redis.call('HDEL', shard .. 'instances', ARGV[1])
return 1
