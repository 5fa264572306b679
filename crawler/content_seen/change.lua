-- Put records into buckets of packed records, or take them out. May be repeated.
--
-- A bucket is one string of records of one size: a hash of eight bytes, then what is kept with it.
-- Short buckets are written anew, since appending would double the memory they take; long ones are
-- appended to, since writing them anew would swell the append-only file.
--
-- KEYS[n]    bucket, string
-- ARGV[1]    most records a bucket may have; the oldest eighth of a full one is dropped
-- ARGV[n+1]  what to do with a record, and the record: "+" put it in, "1" put it in if no record
--            has its hash, "-" take it out
-- Returns    for each bucket how many of its records have the hash then

local SHORT = 2048
local most = tonumber(ARGV[1])
local found = {}

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
      bucket = bucket:sub(1, place - 1) .. bucket:sub(place + size)
      if bucket == '' then redis.call('DEL', key) else redis.call('SET', key, bucket) end
    end
  elseif not place and not (what == '1' and same > 0) then
    same = same + 1
    if #bucket >= most * size then
      bucket = bucket:sub(math.floor(most / 8) * size + 1)
      redis.call('SET', key, bucket .. record)
    elseif #bucket < SHORT then
      redis.call('SET', key, bucket .. record)
    else
      redis.call('APPEND', key, record)
    end
  end
  found[index] = same
end
return found
