-- Read what waits for a host in its back queues.
--
-- KEYS[1]  shard
-- ARGV[1]  host
-- ARGV[2]  entries to read of each queue
-- Returns  {{length of back queue 1, its first entries}, …}; gaps are left out

numbers(2, 2)
local answer = {}
for number = 1, QUEUES do
  local key = shard .. 'back:' .. ARGV[1] .. ':' .. number
  local first = {}
  for _, entry in ipairs(redis.call('LRANGE', key, 0, ARGV[2] - 1)) do
    if #entry > 1 then first[#first + 1] = entry end
  end
  answer[number] = {redis.call('LLEN', key), first}
end
return answer
