-- Make recrawls due now, in a part of the delay queue.
--
-- KEYS[1]  shard
-- ARGV[1]  due time of the bucket to go on with ('' = the first)
-- ARGV[2]  number of records of that bucket to skip
-- ARGV[3]  maximum number of records to read
-- ARGV[4]  maximum number of records to move
-- ARGV[5]  now, ms (0 = the shard's time)
-- Returns  {due time to go on with ('' = the end), records to skip, number of moved URLs}
--
-- These are the recrawls that are wanted; and after a change of their budget those whose turns are void,
-- and those that would be due too late.
--
-- They stay in the delay queue, so that promote.lua gives them their turns in a budget. Those that wait
-- for their turns already are left alone, or each news would take one more turn. So are retries: their
-- delays are for the host. A record leaves a gap, see lift_front.lua.

numbers(5, 2, 3, 4, 5)
optional(1)
local due, skip, left, moves = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local FORWARDS, delayed, moved = shard .. 'forwards:now', shard .. 'delayed', 0
local now = now_ms(ARGV[5])
local now_due = bucket_of(now, 0)

-- Return when a URL was visited last, unix s, or nil. Its tail has it in msgpack: the key "at", and 32 bits.
local function visited_s(entry)
  local place = string.find(entry, '\162at\206', 1, true)
  return place and place + 7 <= #entry and struct.unpack('>I4', entry, place + 4) or nil
end

local function is_wanted(entry, changed)
  local at = changed ~= '0' and visited_s(entry)
  return not at or at <= tonumber(changed)
end

-- Times later than this are too late; nil if the budget was not changed.
local later = tonumber(redis.call('HGET', FORWARDS, 'later') or nil)
local turn_mark = redis.call('HGET', STATS, 'turn_mark_here')

-- Return the mark with which a recrawl is due now, or nil if it is not.
local function mark_now(mark, entry, changed)
  local has_turn = string.find(mark, '[pqPQ]')
  if not has_turn and mark ~= 'c' or not host_of(entry) then return nil end
  if changed and mark ~= 'P' and mark ~= 'Q' and is_wanted(entry, changed) then return 'f' end
  local is_void = later and has_turn and string.lower(mark) ~= turn_mark
  local is_late = later and not has_turn and tonumber(due) > later
  return (is_void or is_late) and (string.find(mark, '[PQ]') and 'f' or 'c') or nil
end

-- Search a part of a bucket; returns the number of records that were read.
local function search(bucket, records)
  if #records == 0 then return 0 end
  local ids = {}
  for i, record in ipairs(records) do ids[i] = entry_id(string.sub(record, 2)) end
  for i, changed in ipairs(redis.call('HMGET', FORWARDS, unpack(ids))) do
    local mark, entry = string.sub(records[i], 1, 1), string.sub(records[i], 2)
    local next_mark = (changed or later) and mark_now(mark, entry, changed)
    if changed and mark ~= 'r' then redis.call('HDEL', FORWARDS, ids[i]) end
    if next_mark then
      redis.call('LSET', bucket, skip + i - 1, GAP)
      delay_record(now_due, next_mark .. entry)
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
return {due, skip, moved}
