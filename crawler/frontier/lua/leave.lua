-- Sign off an instance that holds no leases.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- Returns  1, or 0 if it still holds leases: they come back by reclaim

numbers(1)
if redis.call('EXISTS', shard .. 'leases:' .. ARGV[1]) == 1 then return 0 end
forget_owner(ARGV[1], now_ms(0), 0)
return 1
