-- An instance that holds no lease any more signs off.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- Returns  1, or 0 when it still holds leases: they come back by reclaim

if redis.call('EXISTS', shard .. 'leases:' .. ARGV[1]) == 1 then return 0 end
forget_owner(ARGV[1], now_ms(0), 0)
return 1
