-- Put URLs that were never seen into their front queues.
--
-- KEYS[1]  shard
-- ARGV[1]  msgpack array of entries, at most 1,000
-- ARGV[2]  'new', or 'force' to push known URLs too (dont_filter), or 'all' to refuse none (seeds)
-- ARGV[3]  waiting URLs from which on discoveries for queues 4 and 5 are refused (0 = no limit)
-- ARGV[4]  who forces, and
-- ARGV[5]  the name of its order and
-- ARGV[6]  the number of this part of it: one that was done already changes nothing, so that a forced
--          add may be repeated after a lost reply, or when a server may have lost it
-- ARGV[7]  form of URL-seen, see seen_intset.lua and seen_bloom.lua
-- Returns  a string, one character an entry: '1' added, '0' known, '2' refused and not marked seen

local FORCED_TTL_MS = 86400000
-- More than a process passes in the time for which it repeats what a server may have lost.
local FORCED_MAX = 1000
local entries = cmsgpack.unpack(ARGV[1])
local queues, answer, added, refused = {{}, {}, {}, {}, {}}, {}, 0, 0
-- Before the first write, since nothing is undone.
for _, entry in ipairs(entries) do
  assert(#entry > 21 and queues[queue_of(entry)], 'an entry is damaged or its front queue is not 1 to 5')
end
local force, limit = ARGV[2] == 'force', tonumber(ARGV[3])
if force then
  local key, order = shard .. 'forced:' .. ARGV[4], ARGV[5] .. ' ' .. ARGV[6]
  if redis.call('LPOS', key, order) then return string.rep('1', #entries) end
  redis.call('LPUSH', key, order)
  redis.call('LTRIM', key, 0, FORCED_MAX - 1)
  redis.call('PEXPIRE', key, FORCED_TTL_MS)
end
local full = false
if limit > 0 and ARGV[2] == 'new' then
  local waiting = tonumber(redis.call('HGET', STATS, 'back') or 0)
  for number = 1, 5 do waiting = waiting + redis.call('LLEN', shard .. 'front:' .. number) end
  full = waiting >= limit
end

for i, entry in ipairs(entries) do
  local number, id = queue_of(entry), entry_id(entry)
  if full and number >= 4 then
    local known = is_seen(id)
    answer[i] = known and '0' or '2'
    if not known then refused = refused + 1 end
  elseif mark_seen(id) or force then
    local queue = queues[number]
    queue[#queue + 1] = entry
    answer[i], added = '1', added + 1
  else
    answer[i] = '0'
  end
end
for number, queue in ipairs(queues) do
  if #queue > 0 then redis.call('RPUSH', shard .. 'front:' .. number, unpack(queue)) end
end
account_seen()
count('added', added)
count('refused', refused)
return table.concat(answer)
