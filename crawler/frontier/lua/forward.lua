-- Move URLs that are to be recrawled now out of a part of the delay queue, to their front queues.
--
-- KEYS[1]  shard
-- ARGV[1]  due time of the bucket to go on with ('' = the first)
-- ARGV[2]  number of records of that bucket to skip
-- ARGV[3]  maximum number of records to read
-- ARGV[4]  maximum number of records to move
-- Returns  {due time to go on with ('' = the end), records to skip, number of moved URLs}
--
-- Retries stay: their delays are for the host. A record leaves a gap, see lift_front.lua.

local due, skip, left, moves = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local FORWARDS, delayed, moved = shard .. 'forwards:now', shard .. 'delayed', 0

-- Search a part of a bucket; returns the number of records that were read.
local function search(bucket, records)
  if #records == 0 then return 0 end
  local ids = {}
  for i, record in ipairs(records) do ids[i] = entry_id(string.sub(record, 2)) end
  local wanted = redis.call('SMISMEMBER', FORWARDS, unpack(ids))
  for i, record in ipairs(records) do
    local entry = string.sub(record, 2)
    if wanted[i] == 1 and string.sub(record, 1, 1) == 'c' and host_of(entry) then
      redis.call('SREM', FORWARDS, entry_id(entry))
      redis.call('RPUSH', shard .. 'front:' .. queue_of(entry), entry)
      redis.call('LSET', bucket, skip + i - 1, GAP)
      moved = moved + 1
      if moved == moves then return i end
    end
  end
  return #records
end

while left > 0 and moved < moves do
  local start = due == '' and '-inf' or skip > 0 and due or '(' .. due
  local found = redis.call('ZRANGEBYSCORE', delayed, start, '+inf', 'LIMIT', 0, 1)[1]
  if not found then due, skip = '', 0 break end
  if found ~= due then due, skip = found, 0 end
  local bucket = delayed .. ':' .. due
  local records = redis.call('LRANGE', bucket, skip, skip + left - 1)
  local read = search(bucket, records)
  left, skip = left - math.max(read, 1), skip + read
  -- At the end of the bucket: the next one follows.
  if read == #records and left > 0 then skip = 0 end
end
count('recrawls', -moved)
return {due, skip, moved}
