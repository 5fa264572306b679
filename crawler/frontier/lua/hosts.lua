-- A page of the hosts that wait for their turn, the next due first.
--
-- KEYS[1]  shard
-- ARGV[1]  how many to pass over
-- ARGV[2]  how many to return
-- Returns  host, next contact in ms, waiting URLs, delay in ms, pages: five values a host

local answer = {}
local page = redis.call('ZRANGE', HEAP, ARGV[1], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
for i = 1, #page, 2 do
  local host = page[i]
  local waiting, delay = unpack(redis.call('HMGET', shard .. 'host:' .. host, 'waiting', 'delay'))
  local pages = redis.call('HGET', shard .. 'pages', host)
  for _, value in ipairs({host, page[i + 1], waiting or 0, delay or 0, pages or 0}) do
    answer[#answer + 1] = value
  end
end
return answer
