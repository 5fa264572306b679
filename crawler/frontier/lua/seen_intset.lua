-- Part of add, forget and status: which URLs were seen, as sets of 32-bit integers.
--
-- Redis keeps such a set as a sorted array, 4 bytes a URL, while it has at most 512 members. A
-- generation has a fixed number of buckets and takes URLs until they hold 430 each on average (then
-- one bucket in 30,000 is larger than 512, which costs nothing that counts); the next generation
-- has eight times as many. New URLs go to the last generation, known ones are looked for in all of
-- them, the last and largest first. The last argument of the script is the size of a full bucket.

local FIRST_BUCKETS = 4096
local FILL = math.max(1, math.floor(tonumber(ARGV[#ARGV]) * 0.84))
local generation, filled = unpack(redis.call('HMGET', STATS, 'seen_generation', 'seen_filled'))
generation, filled = tonumber(generation or 0), tonumber(filled or 0)
local capacity, marked = FIRST_BUCKETS * 8 ^ generation * FILL, 0

-- Prefixes of keys and numbers of buckets, the last generation first.
local prefixes, buckets = {}, {}
local function use_generations()
  prefixes, buckets = {}, {}
  for number = generation, 0, -1 do
    prefixes[#prefixes + 1] = shard .. 'url_seen:' .. number .. ':'
    buckets[#buckets + 1] = FIRST_BUCKETS * 8 ^ number
  end
end
use_generations()

local function is_seen(id)
  local high, low = struct.unpack('>I4i4', id)
  for i = 1, #prefixes do
    if redis.call('SISMEMBER', prefixes[i] .. high % buckets[i], low) == 1 then return true end
  end
  return false
end

local function mark_seen(id)
  if #prefixes > 1 and is_seen(id) then return false end
  local high, low = struct.unpack('>I4i4', id)
  if redis.call('SADD', prefixes[1] .. high % buckets[1], low) == 0 then return false end
  marked = marked + 1
  if filled + marked >= capacity then
    generation, filled, marked = generation + 1, 0, 0
    capacity = capacity * 8
    redis.call('HSET', STATS, 'seen_generation', generation, 'seen_filled', 0)
    use_generations()
  end
  return true
end

local function forget_seen(id)
  local high, low = struct.unpack('>I4i4', id)
  for i = 1, #prefixes do
    if redis.call('SREM', prefixes[i] .. high % buckets[i], low) == 1 then return true end
  end
  return false
end

local function account_seen() count('seen_filled', marked) end
