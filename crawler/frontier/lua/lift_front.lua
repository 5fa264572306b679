-- Move URLs that are wanted in a better queue out of a part of a front queue.
--
-- KEYS[1]  shard
-- ARGV[1]  number of the queue
-- ARGV[2]  place to begin at: number of the URLs that came before; '' for its first URL
-- ARGV[3]  place to end at; '' for its last URL
-- ARGV[4]  maximum number of URLs to read
-- ARGV[5]  maximum number of URLs to move
-- Returns  {place to go on at, place to end at, number of moved URLs}
--
-- A place counts the URLs that ever left the queue, so that it stays the same while others are claimed.
-- A URL leaves a gap, since taking it out of the middle of a list would take time with its length. The
-- copy in the better queue is the URL from then on.

numbers(5, 1, 4, 5)
optional(2, 3)
local number, read_max, moved = tonumber(ARGV[1]), tonumber(ARGV[4]), 0
local key = shard .. 'front:' .. number
local out = tonumber(redis.call('HGET', STATS, 'out' .. number) or 0)
local at = math.max(out, tonumber(ARGV[2]) or out)
local last = tonumber(ARGV[3]) or out + redis.call('LLEN', key)
if at >= last then return {last, last, 0} end
local first = at - out
local entries = redis.call('LRANGE', key, first, math.min(first + read_max, last - out) - 1)
local better, looked = take_lifts(entries, number, tonumber(ARGV[5]))

-- What people set for the host comes first.
local function may_move(host, place)
  local excluded, queue, cut = unpack(redis.call('HMGET', shard .. 'host:' .. host, 'excluded', 'queue',
    'cut'))
  return not excluded and not queue and not (cut and place <= purged_up_to(cut, number))
end

for i = 1, looked do
  local queue = better[i]
  if queue and may_move(host_of(entries[i]), at + i) then
    redis.call('RPUSH', shard .. 'front:' .. queue, in_queue(entries[i], queue))
    redis.call('LSET', key, first + i - 1, GAP)
    moved = moved + 1
  end
end
count('gaps' .. number, moved)
-- Fewer than were asked for: others were claimed, and these are the last.
return {#entries == 0 and last or at + looked, last, moved}
