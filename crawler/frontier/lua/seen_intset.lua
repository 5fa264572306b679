-- Part of add, forget and status: which URLs were seen, as sets of 32-bit integers.
--
-- Redis keeps such a set as a sorted array, 4 bytes a URL, while it has at most BUCKET_MAX members.
-- A full bucket sends its URLs on to the next generation, which has eight times as many buckets. A
-- bucket that is not full has nothing in later generations, so the search may stop there.

local FIRST_BUCKETS = 4096
local BUCKET_MAX = tonumber(ARGV[#ARGV])

-- Calls visit(key, low) for each bucket that may hold the URL, until it returns a value.
local function in_buckets(id, visit)
  local high, low = struct.unpack('>I4i4', id)
  local generation, buckets = 0, FIRST_BUCKETS
  while true do
    local found = visit(shard .. 'url_seen:' .. generation .. ':' .. (high % buckets), low)
    if found ~= nil then return found end
    generation, buckets = generation + 1, buckets * 8
  end
end

local function mark_seen(id)
  return in_buckets(id, function(key, low)
    if redis.call('SISMEMBER', key, low) == 1 then return false end
    if redis.call('SCARD', key) < BUCKET_MAX then
      redis.call('SADD', key, low)
      return true
    end
  end)
end

local function is_seen(id)
  return in_buckets(id, function(key, low)
    if redis.call('SISMEMBER', key, low) == 1 then return true end
    if redis.call('SCARD', key) < BUCKET_MAX then return false end
  end)
end

local function forget_seen(id)
  return in_buckets(id, function(key, low)
    local full = redis.call('SCARD', key) >= BUCKET_MAX
    if redis.call('SREM', key, low) == 0 then
      if full then return nil end
      return false
    end
    -- A bucket that was full must stay so: the search goes on only behind full ones.
    local filler = low
    while full do
      filler = filler == 2147483647 and -2147483648 or filler + 1
      full = redis.call('SADD', key, filler) == 0
    end
    return true
  end)
end

local function account_seen() end
