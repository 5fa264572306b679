-- Put records into buckets of packed records, or take them out. May be repeated.
--
-- A bucket is one string of records of one size: a hash of eight bytes, then what is kept with it.
-- It has room for an eighth more of them, as records of zeros at its end. So most records are
-- written into it; only a bucket without room is written anew, which is what swells the append-only
-- file. Redis itself would make room for twice as many.
--
-- KEYS[n]    bucket, string
-- ARGV[1]    most records a bucket may have; the oldest eighth of a full one is dropped
-- ARGV[n+1]  what to do with a record, and the record: "+" put it in, "1" put it in if no record
--            has its hash, "-" take it out
-- Returns    for each bucket how many of its records have the hash then

local most = tonumber(ARGV[1])
local found = {}

-- How many bytes of a bucket are records.
local function used(bucket, size)
  local zeros, last = ('\0'):rep(size), #bucket
  while last > 0 and bucket:sub(last - size + 1, last) == zeros do last = last - size end
  return last
end

-- Write a bucket anew, with room for more.
local function write(key, records, size)
  local count = #records / size
  local room = math.min(math.floor(count / 8), most - count)
  redis.call('SET', key, records .. ('\0'):rep(room * size))
end

for index, key in ipairs(KEYS) do
  local what, record = ARGV[index + 1]:sub(1, 1), ARGV[index + 1]:sub(2)
  local size, hash = #record, record:sub(1, 8)
  local bucket = redis.call('GET', key) or ''
  local same, place = 0, nil
  local at = bucket:find(hash, 1, true)
  while at do
    if at % size == 1 then
      same = same + 1
      if bucket:sub(at, at + size - 1) == record then place = at end
      at = bucket:find(hash, at + size, true)
    else
      at = bucket:find(hash, at + 1, true)
    end
  end
  if what == '-' then
    if place then
      same = same - 1
      local records = bucket:sub(1, place - 1) .. bucket:sub(place + size, used(bucket, size))
      if records == '' then redis.call('DEL', key) else write(key, records, size) end
    end
  elseif not place and not (what == '1' and same > 0) then
    same = same + 1
    local last = used(bucket, size)
    if last < #bucket then
      redis.call('SETRANGE', key, last, record)
    else
      local first = last >= most * size and math.floor(most / 8) * size + 1 or 1
      write(key, bucket:sub(first) .. record, size)
    end
  end
  found[index] = same
end
return found
