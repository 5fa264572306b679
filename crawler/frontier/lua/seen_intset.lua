-- Part of add, forget and status: which URLs were seen, as sets of 32-bit integers.
--
-- Redis keeps such a set as a sorted array, 4 bytes for each URL, while it has at most 512 members. A
-- URL has one bucket. Buckets are divided one by one as URLs come (linear hashing): at level n the
-- first `divided` of the FIRST_BUCKETS * 2^n buckets are divided. The others hold up to twice as many
-- URLs, on average 430 at the most, so that one in 30,000 is larger than 512, which does not matter. A
-- bucket is chosen by 12 bits of the fingerprint and by the last of the 32 bits that are its member,
-- so that a division needs only the members: 44 bits distinguish URLs.
-- The last argument of the script is the size of a full bucket.

local FIRST_BUCKETS = 4096
expect((is_number(ARGV[#ARGV]) or 0) >= 1, 'form of URL-seen')
-- Average number of URLs in a bucket, divided or not.
local FILL = math.max(1, math.floor(tonumber(ARGV[#ARGV]) * 0.42))
local call, format = redis.call, string.format
local BUCKET = shard .. 'url_seen:'
local KEY = string.gsub(BUCKET, '%%', '%%%%') .. '%d'
local level, divided, filled = unpack(redis.call('HMGET', STATS, 'seen_level', 'seen_divided',
  'seen_filled'))
level, divided, filled = tonumber(level or 0), tonumber(divided or 0), tonumber(filled or 0)
local parts, marked = 2 ^ level, 0

-- Return the key of a URL's bucket, and its member there. By string.format: Lua and redis.call take
-- twice as long to format a number, and an add spends most of its time here.
local function place_of(high, low)
  local first = high % FIRST_BUCKETS
  local bucket = first + FIRST_BUCKETS * (low % parts)
  if bucket < divided then bucket = first + FIRST_BUCKETS * (low % (2 * parts)) end
  return format(KEY, bucket), format('%d', low)
end

local function is_seen(high, low) return redis.call('SISMEMBER', place_of(high, low)) == 1 end

local function mark_seen(high, low)
  local new = call('SADD', place_of(high, low))
  marked = marked + new
  return new == 1
end

local function forget_seen(high, low)
  if redis.call('SREM', place_of(high, low)) == 0 then return false end
  count('seen_filled', -1)
  return true
end

-- Move half of the next bucket's members to a new one: those with the next bit set. SDIFFSTORE writes
-- the others anew, since a set that was once too large would stay a hash table.
local function divide()
  local key, go = BUCKET .. divided, {}
  for _, member in ipairs(redis.call('SMEMBERS', key)) do
    if member % (2 * parts) >= parts then go[#go + 1] = member end
  end
  if #go > 0 then
    local other = BUCKET .. (divided + FIRST_BUCKETS * parts)
    redis.call('SADD', other, unpack(go))
    redis.call('SDIFFSTORE', key, key, other)
  end
  divided = divided + 1
  if divided == FIRST_BUCKETS * parts then level, divided, parts = level + 1, 0, parts * 2 end
end

-- Divide as many buckets as the new URLs need, and one or two more if there are too few.
local function account_seen()
  if marked == 0 then return end
  filled = filled + marked
  local left = 2 + math.ceil(marked / FILL)
  while left > 0 and filled > (FIRST_BUCKETS * parts + divided) * FILL do
    divide()
    left = left - 1
  end
  redis.call('HSET', STATS, 'seen_level', level, 'seen_divided', divided, 'seen_filled', filled)
end
