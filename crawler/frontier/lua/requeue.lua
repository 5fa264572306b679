-- Move dead letters back to their front queues, with no attempts on record.
--
-- KEYS[1]  shard
-- ARGV[1]  stream id to begin after ('-' = the first)
-- ARGV[2]  maximum number of letters to read
-- ARGV[3]  only this reason ('' = any)
-- ARGV[4]  only this host ('' = any)
-- Returns  {last stream id that was read ('' = the end), number of requeued letters}

numbers(4, 2)
fronts_are_lists()
are('hash', STATS)
local dead = shard .. 'dead'
local start = ARGV[1] == '-' and '-' or '(' .. ARGV[1]
local letters, taken, last = redis.call('XRANGE', dead, start, '+', 'COUNT', ARGV[2]), 0, ''
for _, letter in ipairs(letters) do
  last = letter[1]
  local fields = letter[2]
  local entry, reason = fields[2], fields[4]
  local host = host_of(entry)
  local chosen = (ARGV[3] == '' or ARGV[3] == reason) and (ARGV[4] == '' or ARGV[4] == host)
  -- Bytes that are no entry cannot be requeued.
  if chosen and host then
    redis.call('XDEL', dead, last)
    taken = taken + 1
    local queue = queue_of(entry)
    entry = string.sub(entry, 1, 2) .. string.char(queue * 32, 0) .. string.sub(entry, 5)
    redis.call('RPUSH', shard .. 'front:' .. queue, entry)
  end
end
count('dead', -taken)
if #letters < tonumber(ARGV[2]) then last = '' end
return {last, taken}
