-- Add what an instance counted of hosts to the counts of the fleet, and learn these.
--
-- KEYS[1]  shard
-- ARGV[1…] host, URLs of it that were found, links to it from other domains: three arguments a host
-- Returns  the same two numbers of each host, of the whole fleet

local totals = {}
for i = 1, #ARGV, 3 do
  totals[#totals + 1] = redis.call('HINCRBY', shard .. 'found', ARGV[i], ARGV[i + 1])
  totals[#totals + 1] = redis.call('HINCRBY', shard .. 'inbound', ARGV[i], ARGV[i + 2])
end
return totals
