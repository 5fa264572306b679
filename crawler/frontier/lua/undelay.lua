-- Remove one URL from the delay queue, in a bounded part of it.
--
-- KEYS[1]  shard
-- ARGV[1]  entry id, eight bytes
-- ARGV[2]  due time of the bucket to continue with ('' = the first)
-- ARGV[3]  number of records of that bucket to skip
-- ARGV[4]  maximum number of records to read
-- Returns  {due time to continue with ('' = the end), records to skip, number of removed records}

numbers(4, 3, 4)
optional(2)
local due, at, left, taken = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), 0
local delayed = shard .. 'delayed'

local function take_out(bucket, record)
  redis.call('LREM', bucket, 1, record)
  count(string.sub(record, 1, 1) == 'r' and 'retries' or 'recrawls', -1)
  taken = taken + 1
end

while left > 0 do
  local start = due == '' and '-inf' or at > 0 and due or '(' .. due
  local found = redis.call('ZRANGEBYSCORE', delayed, start, '+inf', 'LIMIT', 0, 1)[1]
  if not found then return {'', 0, taken} end
  if found ~= due then due, at = found, 0 end
  local bucket = delayed .. ':' .. due
  local records = redis.call('LRANGE', bucket, at, at + left - 1)
  left, at = left - #records, at + #records
  for _, record in ipairs(records) do
    if entry_id(string.sub(record, 2)) == ARGV[1] then
      take_out(bucket, record)
      at = at - 1
    end
  end
  -- At the end of the bucket: the next one follows.
  if left > 0 or #records == 0 then at = 0 end
  if redis.call('EXISTS', bucket) == 0 then redis.call('ZREM', delayed, due) end
end
return {due, at, taken}
