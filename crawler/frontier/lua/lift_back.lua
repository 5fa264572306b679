-- Move URLs that are wanted in a better queue out of parts of the back queues of their hosts.
--
-- KEYS[1]  shard
-- ARGV[1]  queue to go on with in the first host (5 at first)
-- ARGV[2]  number of its URLs to skip
-- ARGV[3]  maximum number of URLs to read
-- ARGV[4]  number of URLs of each queue among which to look
-- ARGV[5]  maximum number of URLs to move
-- ARGV[6…] hosts
-- Returns  {number of hosts that are done, queue and number of URLs to go on with in the next one,
--          number of moved URLs}
--
-- The URLs of an active host go to a better back queue of it. Those of a parked host go to a front queue,
-- which gives the host its turn sooner.

numbers(5, 1, 2, 3, 4, 5)
expect(tonumber(ARGV[1]) <= PAGE_QUEUES, 'queue')
local number, skip, left = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local depth, moves, moved = tonumber(ARGV[4]), tonumber(ARGV[5]), 0

local function move(host, entry, queue, is_parked)
  if not is_parked then
    redis.call('RPUSH', shard .. 'back:' .. host .. ':' .. queue, in_queue(entry, queue))
    return
  end
  redis.call('HINCRBY', shard .. 'host:' .. host, 'waiting', -1)
  count('back', -1)
  redis.call('RPUSH', shard .. 'front:' .. queue, in_queue(entry, queue))
end

-- Search a part of a list; returns the number of URLs that were read and stay, and whether it ended.
local function search(host, list, is_parked)
  local most = math.min(left, depth - skip)
  local entries = redis.call('LRANGE', list, skip, skip + most - 1)
  local better, looked = take_lifts(entries, number, moves - moved)
  local found = 0
  for i in pairs(better) do
    redis.call('LSET', list, skip + i - 1, GAP)
    found = found + 1
  end
  -- The depth bounds what this reads.
  if found > 0 then redis.call('LREM', list, found, GAP) end
  for i = 1, looked do
    if better[i] then move(host, entries[i], better[i], is_parked) end
  end
  moved, left = moved + found, left - looked
  return looked - found, looked == #entries and looked < most
end

for i = 6, #ARGV do
  local host = ARGV[i]
  local waiting, queue, parked, tokens = unpack(redis.call('HMGET', shard .. 'host:' .. host, 'waiting',
    'queue', 'parked', 'tokens'))
  -- A parked host whose fetch has ended meanwhile is active, too.
  local is_parked = parked and (tokens or '') == '' and not redis.call('ZSCORE', HEAP, host)
  while number > 1 and tonumber(waiting or 0) > 0 and not queue do
    if left <= 0 or moved >= moves then return {i - 6, number, skip, moved} end
    local stay, is_end = search(host, shard .. 'back:' .. host .. ':' .. number, is_parked)
    skip = skip + stay
    if is_end or skip >= depth then number, skip = number - 1, 0 end
  end
  number, skip = 5, 0
end
return {#ARGV - 5, 5, 0, moved}
