-- Return URLs that are about to be claimed: one of each host that is due soon, and the next ones of
-- the front queues. Nothing changes.
--
-- KEYS[1]  shard
-- ARGV[1]  now, ms (0 = the shard's time)
-- ARGV[2]  time ahead, ms
-- ARGV[3]  maximum number of each kind
-- Returns  entries, in no order; the same host may come twice

numbers(3, 1, 2, 3)
local found, most = {}, tonumber(ARGV[3])
local until_ms = now_ms(ARGV[1]) + ARGV[2]
for _, host in ipairs(redis.call('ZRANGEBYSCORE', HEAP, '-inf', until_ms, 'LIMIT', 0, most)) do
  for number = 1, QUEUES do
    local entry = redis.call('LINDEX', shard .. 'back:' .. host .. ':' .. number, 0)
    if entry then
      found[#found + 1] = entry
      break
    end
  end
end
-- Queues of documents and media are mostly empty: those of pages do not share with them.
local last = math.ceil(most / PAGE_QUEUES) - 1
for number = 1, QUEUES do
  for _, entry in ipairs(redis.call('LRANGE', shard .. 'front:' .. number, 0, last)) do
    found[#found + 1] = entry
  end
end
return found
