-- Put URLs that were never seen into their front queues.
--
-- KEYS[1]  shard
-- ARGV[1]  msgpack array of entries, at most 1,000
-- ARGV[2]  how many members a URL-seen bucket may have
-- ARGV[3]  '1' to push known URLs too (dont_filter); they are marked seen all the same
-- Returns  a string of '1' (added) and '0' (known), one character an entry

local FIRST_BITS = 12  -- 4,096 buckets in the first generation, eight times as many in each next one
local entries = cmsgpack.unpack(ARGV[1])
local limit = tonumber(ARGV[2])
local force = ARGV[3] == '1'

-- A bucket that is not full has nothing in later generations, so the search may stop there.
local function mark_seen(entry)
  local high, low = struct.unpack('>I4i4', entry, 6)
  local generation, buckets = 0, 2 ^ FIRST_BITS
  while true do
    local key = shard .. 'url_seen:' .. generation .. ':' .. (high % buckets)
    if redis.call('SISMEMBER', key, low) == 1 then return false end
    if redis.call('SCARD', key) < limit then
      redis.call('SADD', key, low)
      return true
    end
    generation, buckets = generation + 1, buckets * 8
  end
end

local queues, answer, added = {{}, {}, {}, {}, {}}, {}, 0
for i, entry in ipairs(entries) do
  if mark_seen(entry) or force then
    local queue = queues[queue_of(entry)]
    queue[#queue + 1] = entry
    answer[i], added = '1', added + 1
  else
    answer[i] = '0'
  end
end
for number, queue in ipairs(queues) do
  if #queue > 0 then redis.call('RPUSH', shard .. 'front:' .. number, unpack(queue)) end
end
count('added', added)
return table.concat(answer)
