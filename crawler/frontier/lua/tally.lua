-- Add an instance's counts of hosts to those of the fleet.
--
-- KEYS[1]  shard
-- ARGV[1…] host, number of its URLs that were found, number of links to it from other domains: three
--          arguments for each host
-- Returns  both numbers of each host, as sums over the fleet

groups(1, 3, 1, 2)
local totals = {}
for i = 1, #ARGV, 3 do
  totals[#totals + 1] = redis.call('HINCRBY', shard .. 'found', ARGV[i], ARGV[i + 1])
  totals[#totals + 1] = redis.call('HINCRBY', shard .. 'inbound', ARGV[i], ARGV[i + 2])
end
return totals
