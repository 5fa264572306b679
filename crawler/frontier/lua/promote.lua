-- Move URLs that are due from the delay queue to their front queues.
--
-- KEYS[1]  shard
-- ARGV[1]  now, ms (0 = the shard's time)
-- ARGV[2]  maximum number of URLs
-- ARGV[3]  dead letters kept
-- ARGV[4]  budget of recrawls: ms between two turns in its usual lane, or 0 for no budget
-- ARGV[5]  ms between two turns in its express lane
-- ARGV[6]  hash tag of the shard that has the clocks of the lanes, see frontier.py
-- ARGV[7]  budget of the crawl, 0 for none, to notice that it was changed; '' if nothing is visited again
-- ARGV[8]  longest wait for a recrawl in this budget, ms,
-- ARGV[9]  and ms more for each URL of the shard that waits for its recrawl
-- Returns  number of moved URLs
--
-- With a budget each recrawl takes a turn, and waits for it in the delay queue. The express lane is for
-- sitemaps and for pages that were brought forward; its surplus takes turns in the usual lane. A turn that
-- nobody took is lost, so there are never more recrawls than the budget has; and so is one that is an hour
-- late, or the turns of a fleet that stood still would all be taken at once. When the budget is changed, all
-- turns are void, and the lanes begin anew: turns have two marks in alternation. The next sweep makes those
-- recrawls due whose turns are void, and those that would wait for too long, see forward.lua.

numbers(9, 1, 2, 3, 4, 5, 8, 9)
optional(7)
fronts_are_lists()
are('zset', shard .. 'delayed')
are('stream', shard .. 'dead')
local now, limit, moved, retries, gaps, waiting = now_ms(ARGV[1]), tonumber(ARGV[2]), 0, 0, 0, 0
local delayed, queues = shard .. 'delayed', {{}, {}, {}, {}, {}, {}, {}}
local every = {usual = tonumber(ARGV[4]), express = tonumber(ARGV[5])}
-- Turns are taken this early, so that a large budget need not delay each recrawl by its milliseconds.
local EARLY_MS, LATE_MS = 1000, 3600000
local CLOCKS = ARGV[6] .. ':stats'
-- Processes notice within this time that the budget was changed.
local CHANGE_MS = 5000
local usual, express, budget, since, mine = unpack(redis.call('HMGET', CLOCKS, 'turn_usual',
  'turn_express', 'turn_budget', 'turn_since', 'turn_mark'))
if ARGV[7] ~= '' and (budget or '0') ~= ARGV[7] and now - tonumber(since or 0) > CHANGE_MS then
  usual, express, mine = nil, nil, mine == 'p' and 'q' or 'p'
  redis.call('HSET', CLOCKS, 'turn_budget', ARGV[7], 'turn_since', digits(now), 'turn_mark', mine)
end
-- Each shard on a server notices the change by itself.
local mine_here, recrawls = unpack(redis.call('HMGET', STATS, 'turn_mark_here', 'recrawls'))
if mine and mine ~= mine_here then
  local wait = tonumber(ARGV[8]) + ARGV[9] * (recrawls or 0)
  redis.call('HSET', STATS, 'turn_mark_here', mine)
  redis.call('HSET', shard .. 'forwards', 'later', digits(now + wait))
end
-- When the next turn of each lane is.
local turns = {usual = math.max(now, tonumber(usual or 0)), express = math.max(now, tonumber(express or 0))}

-- Take the next turn in the budget. Returns its time.
local function take_turn(is_express)
  local lane = is_express and turns.express < turns.usual and 'express' or 'usual'
  local turn = turns[lane]
  turns[lane] = turn + every[lane]
  return turn
end

-- Return whether a recrawl was brought forward: a capital letter if it waits for its turn.
local function is_forward(mark) return mark == 'f' or mark == 'P' or mark == 'Q' end

-- Return the time at which a record that is due may go on.
local function turn_of(mark, entry, due)
  if every.usual == 0 or mark == 'r' then return now end
  if string.lower(mark) == mine and now - due <= LATE_MS then return now end
  return take_turn(is_forward(mark) or kind_of(entry) == 1)
end

while moved < limit do
  local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, 1)[1]
  if not due then break end
  local bucket = delayed .. ':' .. due
  local records = redis.call('LPOP', bucket, limit - moved) or {}
  for _, record in ipairs(records) do
    local mark, entry = string.sub(record, 1, 1), string.sub(record, 2)
    if record == GAP then
      gaps = gaps + 1
    elseif host_of(entry) then
      local turn = turn_of(mark, entry, tonumber(due))
      if turn <= now + EARLY_MS then
        local queue = queues[queue_of(entry)]
        queue[#queue + 1] = entry
      else
        local waits_as = is_forward(mark) and string.upper(mine) or mine
        delay_record(bucket_of(now, turn - now), waits_as .. entry)
        waiting = waiting + 1
      end
    else
      bury_entry(entry, 'damaged', now, ARGV[3])
    end
    if mark == 'r' then retries = retries + 1 end
  end
  moved = moved + #records
  -- Fewer than asked for were left: the bucket is empty, and its key is gone.
  if moved < limit or redis.call('EXISTS', bucket) == 0 then redis.call('ZREM', delayed, due) end
end
for number, queue in ipairs(queues) do
  if #queue > 0 then redis.call('RPUSH', shard .. 'front:' .. number, unpack(queue)) end
end
if every.usual > 0 then
  redis.call('HSET', CLOCKS, 'turn_usual', string.format('%.3f', turns.usual), 'turn_express',
    string.format('%.3f', turns.express))
end
count('retries', -retries)
count('recrawls', retries + gaps + waiting - moved)
return moved - gaps - waiting
