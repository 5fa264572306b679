-- Part of add and status: which URLs were seen, as a chain of Bloom filters.
--
-- When a filter has as many URLs as it was made for, the next one begins. A URL is known if one of the
-- filters says so, which is wrong with about the chance set for each. Nothing can be forgotten.
-- The last argument of the script is "<bits of a filter> <hashes> <URLs of a filter>".

local BITS, HASHES, CAPACITY = string.match(ARGV[#ARGV], '(%d+) (%d+) (%d+)')
BITS, HASHES, CAPACITY = tonumber(BITS), tonumber(HASHES), tonumber(CAPACITY)
local filter, filled = unpack(redis.call('HMGET', STATS, 'bloom', 'bloom_filled'))
filter, filled = tonumber(filter or 0), tonumber(filled or 0)
local UNSIGNED = 4294967296
local doubted = 0

-- Return arguments that read the bits of a URL ('GET') or set them ('SET' and '1').
local function bits_of(high, low, verb, value)
  local arguments, last, step = {}, 0, low % UNSIGNED * 2 + 1
  for i = 0, HASHES - 1 do
    -- string.format: redis.call takes twice as long to write a number.
    arguments[last + 1], arguments[last + 2] = verb, 'u1'
    arguments[last + 3], arguments[last + 4] = string.format('%d', (high + i * step) % BITS), value
    last = #arguments
  end
  return arguments
end

local function is_seen(high, low)
  local looks = bits_of(high, low, 'GET')
  for number = filter, 0, -1 do
    local all = true
    for _, bit in ipairs(redis.call('BITFIELD_RO', shard .. 'bloom:' .. number, unpack(looks))) do
      if bit == 0 then all = false break end
    end
    if all then return true end
  end
  return false
end

local function mark_seen(high, low)
  if is_seen(high, low) then return false end
  doubted = doubted + 1
  if filled >= CAPACITY then filter, filled = filter + 1, 0 end
  redis.call('BITFIELD', shard .. 'bloom:' .. filter, unpack(bits_of(high, low, 'SET', '1')))
  filled = filled + 1
  return true
end

local function forget_seen() return false end

-- Store the fill, and add to the number of new URLs that were probably taken for known.
local function account_seen()
  if doubted == 0 then return end
  local chance = (1 - math.exp(-HASHES * filled / BITS)) ^ HASHES
    + filter * (1 - math.exp(-HASHES * CAPACITY / BITS)) ^ HASHES
  redis.call('HSET', STATS, 'bloom', filter, 'bloom_filled', filled)
  redis.call('HINCRBYFLOAT', STATS, 'bloom_lost', doubted * chance)
end
