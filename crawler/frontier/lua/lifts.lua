-- Part of lift_front and lift_back: which URLs are to wait in a better queue.

local LIFTS = shard .. 'lifts:now'

-- Return the better queue of each of some entries, by their indexes, for at most `most` of them; and
-- the index of the last entry that was looked at. The wishes of these are removed.
local function take_lifts(entries, number, most)
  local better, ids, found = {}, {}, 0
  if #entries == 0 then return better, 0 end
  for i, entry in ipairs(entries) do ids[i] = entry_id(entry) end
  for i, wish in ipairs(redis.call('HMGET', LIFTS, unpack(ids))) do
    if wish then
      redis.call('HDEL', LIFTS, ids[i])
      local queue = string.byte(wish) - 48
      if queue < number and host_of(entries[i]) then
        better[i], found = queue, found + 1
        if found == most then return better, i end
      end
    end
  end
  return better, #entries
end

-- Return an entry as it is in another queue.
local function in_queue(entry, queue)
  local attempts = string.byte(entry, 3) % 32
  return string.sub(entry, 1, 2) .. string.char(queue * 32 + attempts) .. string.sub(entry, 4)
end
