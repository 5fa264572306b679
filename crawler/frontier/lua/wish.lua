-- Note which URLs are wanted sooner, for the next sweep.
--
-- KEYS[1]  shard
-- ARGV[1]  URLs that may be noted, of each kind
-- ARGV[2…] id, queue and a third argument for each URL. With a queue from 1 to 5: it is to wait there, if
--          it waits in a worse one; the third is its host. With 0: its recrawl is to be due now, if its
--          last visit was not after the third, a unix time in s (0 = whenever it was)
-- Returns  number of URLs that are noted: there may be no room for others

numbers(1, 1)
groups(2, 3, 1)
for i = 2, #ARGV, 3 do expect(string.find(ARGV[i + 1], '^[0-5]$') and (ARGV[i + 1] ~= '0' or is_number(ARGV[i + 2])), 'queue') end
local most, noted = tonumber(ARGV[1]), 0
local LIFTS, FORWARDS = shard .. 'lifts', shard .. 'forwards'
local room = {lifts = most - redis.call('HLEN', LIFTS), forwards = most - redis.call('HLEN', FORWARDS)}

local function note_lift(id, queue, host)
  local known = redis.call('HGET', LIFTS, id)
  if not known and room.lifts <= 0 then return end
  if not known or queue < string.sub(known, 1, 1) then
    redis.call('HSET', LIFTS, id, queue .. ' ' .. host)
  end
  if not known then room.lifts = room.lifts - 1 end
  noted = noted + 1
end

local function note_forward(id, changed)
  if room.forwards <= 0 then return end
  room.forwards = room.forwards - redis.call('HSET', FORWARDS, id, changed)
  noted = noted + 1
end

for i = 2, #ARGV, 3 do
  if ARGV[i + 1] == '0' then
    note_forward(ARGV[i], ARGV[i + 2])
  else
    note_lift(ARGV[i], ARGV[i + 1], ARGV[i + 2])
  end
end
return noted
