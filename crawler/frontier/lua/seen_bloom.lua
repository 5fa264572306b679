-- Part of add and status: which URLs were seen, as a chain of Bloom filters.
--
-- A filter takes as many URLs as it was made for; then the next one begins. A URL is known when one
-- of them says so, which is wrong with about the chance given to each. Nothing can be forgotten.
-- The last argument of the script is "<bits of a filter> <hashes> <URLs a filter takes>".

local BITS, HASHES, CAPACITY = string.match(ARGV[#ARGV], '(%d+) (%d+) (%d+)')
BITS, HASHES, CAPACITY = tonumber(BITS), tonumber(HASHES), tonumber(CAPACITY)
local filter, filled = unpack(redis.call('HMGET', STATS, 'bloom', 'bloom_filled'))
filter, filled = tonumber(filter or 0), tonumber(filled or 0)
local doubted = 0

local function bits_of(id, verb)
  local high, low = struct.unpack('>I4I4', id)
  local arguments, step = {}, low * 2 + 1
  for i = 0, HASHES - 1 do
    arguments[#arguments + 1] = verb
    arguments[#arguments + 1] = 'u1'
    arguments[#arguments + 1] = (high + i * step) % BITS
    if verb == 'SET' then arguments[#arguments + 1] = 1 end
  end
  return arguments
end

local function is_seen(id)
  local looks = bits_of(id, 'GET')
  for number = filter, 0, -1 do
    local all = true
    for _, bit in ipairs(redis.call('BITFIELD_RO', shard .. 'bloom:' .. number, unpack(looks))) do
      if bit == 0 then all = false break end
    end
    if all then return true end
  end
  return false
end

local function mark_seen(id)
  if is_seen(id) then return false end
  doubted = doubted + 1
  if filled >= CAPACITY then filter, filled = filter + 1, 0 end
  redis.call('BITFIELD', shard .. 'bloom:' .. filter, unpack(bits_of(id, 'SET')))
  filled = filled + 1
  return true
end

local function forget_seen() return false end

-- Keeps the fill, and adds to the number of new URLs that were probably taken for known.
local function account_seen()
  if doubted == 0 then return end
  local chance = (1 - math.exp(-HASHES * filled / BITS)) ^ HASHES
    + filter * (1 - math.exp(-HASHES * CAPACITY / BITS)) ^ HASHES
  redis.call('HSET', STATS, 'bloom', filter, 'bloom_filled', filled)
  redis.call('HINCRBYFLOAT', STATS, 'bloom_lost', doubted * chance)
end
