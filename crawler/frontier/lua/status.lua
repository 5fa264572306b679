-- Find one URL: O(leases), and a bounded search in the queues where it may wait.
--
-- KEYS[1]  shard
-- ARGV[1]  entry id, eight bytes
-- ARGV[2]  its host
-- ARGV[3]  number of URLs to search in each queue
-- ARGV[4]  form of URL-seen
-- Returns  {state, owner or reason, ms, entry}: 'leased' with the owner; 'waiting'; 'delayed' with
--          'retry' or 'recrawl' and the time when it is due; 'dead' with the reason and the time;
--          'known' (done, or further back in a queue); 'unseen'

numbers(4, 3)
local id, host, look = ARGV[1], ARGV[2], tonumber(ARGV[3])

local function waiting()
  for number = 1, QUEUES do
    for _, key in ipairs({'back:' .. host .. ':' .. number, 'front:' .. number}) do
      for _, entry in ipairs(redis.call('LRANGE', shard .. key, 0, look - 1)) do
        if entry_id(entry) == id then return entry end
      end
    end
  end
end

local function delayed()
  local left = look
  for _, due in ipairs(redis.call('ZRANGE', shard .. 'delayed', 0, look - 1)) do
    if left <= 0 then return end
    local records = redis.call('LRANGE', shard .. 'delayed:' .. due, 0, left - 1)
    left = left - #records
    for _, record in ipairs(records) do
      local entry = string.sub(record, 2)
      if entry_id(entry) == id then
        return due, entry, string.sub(record, 1, 1) == 'r' and 'retry' or 'recrawl'
      end
    end
  end
end

local function dead()
  for _, letter in ipairs(redis.call('XREVRANGE', shard .. 'dead', '+', '-', 'COUNT', look)) do
    local fields = letter[2]
    if entry_id(fields[2]) == id then return fields[6], fields[2], fields[4] end
  end
end

local owner, held = leased(id)
if owner then return {'leased', owner, 0, held} end
local found = waiting()
if found then return {'waiting', '', 0, found} end
local due, later, kind = delayed()
if due then return {'delayed', kind, due, later} end
local at, letter, reason = dead()
if at then return {'dead', reason, at, letter} end
return {is_seen(halves_of(id)) and 'known' or 'unseen', '', 0, ''}
