-- Count links to URLs in a count-min sketch, which takes a fixed number of bytes however many URLs there
-- are, and estimate how many each URL has.
--
-- KEYS[1]  shard
-- ARGV[1]  ids of at most 500 different URLs, eight bytes each
-- ARGV[2]  number of new links to each, a byte each; '' to read only
-- ARGV[3]  bytes that a generation may have
-- Returns  the number of links to each, a byte each. It is never too low, except for links that were
--          forgotten with their generation; 255 stands for more, too
--
-- A URL has a counter of a byte in each of three rows, and the least of them says how often it was
-- counted: others that share one of its counters make it larger. Only the counters that are too low are
-- raised (conservative update). When a generation has a URL for every eight of its bytes, the next one
-- begins, eight times as large up to the limit, and the one before the last is forgotten. A count is the
-- sum of two generations. By then one URL in 16 has one link too many, and one in 27 on average.

numbers(3, 3)
expect(#ARGV[1] % 8 == 0 and (ARGV[2] == '' or tonumber(ARGV[3]) >= 3), 'ids or bytes')
expect(ARGV[2] == '' or #ARGV[2] * 8 == #ARGV[1], 'numbers of links')
local ROWS, FIRST_BYTES, GROWTH, BYTES_A_URL, MOST = 3, 49152, 8, 8, 255
local ids, added, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local generation, urls = unpack(redis.call('HMGET', STATS, 'linked_generation', 'linked_urls'))
generation, urls = tonumber(generation or 0), tonumber(urls or 0)

local function key_of(number) return shard .. 'linked:' .. number end

local function begin_generation()
  local size = math.min(limit, FIRST_BYTES * GROWTH ^ generation)
  generation, urls = generation + 1, 0
  redis.call('UNLINK', key_of(generation - 2), key_of(generation))
  redis.call('SETRANGE', key_of(generation), digits(size - 1), '\0')
end

-- Return the counters of all URLs in a generation by their places, and the places: three for each URL.
local function read(key)
  local width = math.floor(redis.call('STRLEN', key) / ROWS)
  local counters, places, looks, last = {}, {}, {}, 0
  if width == 0 then return counters, places end
  for i = 1, #ids, 8 do
    local first, step = struct.unpack('>I4I4', ids, i)
    for row = 0, ROWS - 1 do
      local place = digits((row * width + (first + row * step) % width) * 8)
      looks[last + 1], looks[last + 2], looks[last + 3], last = 'GET', 'u8', place, last + 3
      places[#places + 1] = place
    end
  end
  for i, counter in ipairs(redis.call('BITFIELD_RO', key, unpack(looks))) do
    counters[places[i]] = counter
  end
  return counters, places
end

local function least(counters, places, last)
  if not places[last] then return 0 end
  return math.min(counters[places[last - 2]], counters[places[last - 1]], counters[places[last]])
end

if added ~= '' and redis.call('EXISTS', key_of(generation)) == 0 then begin_generation() end
local older, older_places = read(key_of(generation - 1))
local counters, places = read(key_of(generation))
local answer, raised = {}, {}
for i = 1, #ids / 8 do
  local last, more = i * ROWS, string.byte(added, i)
  local known = least(counters, places, last)
  if more then
    if known == 0 then urls = urls + 1 end
    known = math.min(MOST, known + more)
    for at = last - ROWS + 1, last do
      local place = places[at]
      if counters[place] < known then counters[place], raised[place] = known, true end
    end
  end
  answer[i] = string.char(math.min(MOST, known + least(older, older_places, last)))
end
if added ~= '' then
  local sets, last = {}, 0
  for place in pairs(raised) do
    sets[last + 1], sets[last + 2], sets[last + 3], sets[last + 4] = 'SET', 'u8', place, counters[place]
    last = last + 4
  end
  if last > 0 then redis.call('BITFIELD', key_of(generation), unpack(sets)) end
  if urls * BYTES_A_URL >= redis.call('STRLEN', key_of(generation)) then begin_generation() end
  redis.call('HSET', STATS, 'linked_generation', digits(generation), 'linked_urls', digits(urls))
end
return table.concat(answer)
