-- Move URLs that are due from the delay queue to their front queues.
--
-- KEYS[1]  shard
-- ARGV[1]  now, ms (0 = the shard's time)
-- ARGV[2]  maximum number of URLs
-- ARGV[3]  dead letters kept
-- Returns  number of moved URLs

local now, limit, moved, retries, gaps = now_ms(ARGV[1]), tonumber(ARGV[2]), 0, 0, 0
local delayed, queues = shard .. 'delayed', {{}, {}, {}, {}, {}, {}, {}}
while moved < limit do
  local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, 1)[1]
  if not due then break end
  local bucket = delayed .. ':' .. due
  local records = redis.call('LPOP', bucket, limit - moved) or {}
  for _, record in ipairs(records) do
    local entry = string.sub(record, 2)
    if record == GAP then
      gaps = gaps + 1
    elseif host_of(entry) then
      local queue = queues[queue_of(entry)]
      queue[#queue + 1] = entry
    else
      bury_entry(entry, 'damaged', now, ARGV[3])
    end
    if string.sub(record, 1, 1) == 'r' then retries = retries + 1 end
  end
  moved = moved + #records
  -- Fewer than asked for were left: the bucket is empty, and its key is gone.
  if moved < limit or redis.call('EXISTS', bucket) == 0 then redis.call('ZREM', delayed, due) end
end
for number, queue in ipairs(queues) do
  if #queue > 0 then redis.call('RPUSH', shard .. 'front:' .. number, unpack(queue)) end
end
count('retries', -retries)
count('recrawls', retries + gaps - moved)
return moved - gaps
