-- Count the URLs in each state. O(owners), whatever the number of URLs.
--
-- KEYS[1]  shard
-- Returns  {front 1..7, back, leased, retries, recrawls, added, done, pages, dead, trimmed, claimed,
--          reclaimed, retried, dropped excluded, purged, budget, refused, hosts on the heap, owners,
--          paused}

local answer = {}
for number = 1, QUEUES do answer[number] = redis.call('LLEN', shard .. 'front:' .. number) end
local names = {'back', 'retries', 'recrawls', 'added', 'done', 'pages', 'dead', 'trimmed', 'claimed',
  'reclaimed', 'retried', 'dropped_excluded', 'dropped_purged', 'dropped_budget', 'refused'}
local values = redis.call('HMGET', STATS, unpack(names))
local leased, owners = 0, redis.call('ZRANGE', OWNERS, 0, -1)
for _, owner in ipairs(owners) do
  leased = leased + redis.call('HLEN', shard .. 'leases:' .. owner)
end
local gaps = redis.call('HMGET', STATS, 'gaps1', 'gaps2', 'gaps3', 'gaps4', 'gaps5')
for number = 1, PAGE_QUEUES do answer[number] = answer[number] - tonumber(gaps[number] or 0) end
answer[QUEUES + 1], answer[QUEUES + 2] = tonumber(values[1] or 0), leased
for i = 2, #names do answer[QUEUES + 1 + i] = tonumber(values[i] or 0) end
answer[#answer + 1] = redis.call('ZCARD', HEAP)
answer[#answer + 1] = #owners
answer[#answer + 1] = redis.call('HEXISTS', STATS, 'paused')
return answer
