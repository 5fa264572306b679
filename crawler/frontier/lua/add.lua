-- Put URLs that were never seen into their front queues.
--
-- KEYS[1]  shard
-- ARGV[1]  entries, concatenated, at most 1,000
-- ARGV[2]  their lengths, four bytes each
-- ARGV[3]  'new'; 'force' to add known URLs too (dont_filter); 'all' to refuse none (seeds)
-- ARGV[4]  number of waiting URLs from which on new ones for queues 4 to 7 are refused (0 = no limit)
-- ARGV[5]  budgets of documents and of media: most of a host, and of the shard, of each (0 = no limit)
-- ARGV[6]  id of the process that forces an add,
-- ARGV[7]  id of the add,
-- ARGV[8]  number of this part of the add: a part that was done before changes nothing, so that a
--          forced add may be repeated after a lost reply, or when a server may have lost it
-- ARGV[9…] other shards on this server, whose URLs count for the limits, too
-- the last: form of URL-seen, see seen_intset.lua and seen_bloom.lua
-- Returns  a string with a character for each entry: '1' added, '0' known; and not marked seen: '2' no
--          room, '3' over its type's budget

numbers(9, 4)
expect(string.find(ARGV[5], '^%d+ %d+ %d+ %d+$'), 'budgets')
expect(ARGV[3] == 'new' or ARGV[3] == 'force' or ARGV[3] == 'all', 'mode')
fronts_are_lists()
are('hash', STATS)
local FORCED_TTL_MS = 86400000
-- More than a process forces in the time for which it repeats adds that a server may have lost.
local FORCED_MAX = 1000
local entries, total, at = ARGV[1], #ARGV[2] / 4, 1
local lengths = {struct.unpack('>' .. string.rep('I4', total), ARGV[2])}
-- The number of each entry's queue, replaced by its answer below.
local answer, highs, lows, unpack_struct = {}, {}, {}, struct.unpack
-- All checks come before the first write, since nothing is undone. Most URLs are known: a string is
-- made only for new ones.
for i = 1, total do
  local version, byte, high, low = unpack_struct('>BxBxxI4i4', entries, at)
  if byte < 32 or lengths[i] < (version < 32 and 22 or 26) then
    error('an entry is damaged or its front queue is not 1 to 7')
  end
  answer[i], highs[i], lows[i], at = (byte - byte % 32) / 32, high, low, at + lengths[i]
end
assert(at == #entries + 1, 'the entries are not as long as their lengths say')
local force, limit = ARGV[3] == 'force', tonumber(ARGV[4])
if force then
  local key, order = shard .. 'forced:' .. ARGV[6], ARGV[7] .. ' ' .. ARGV[8]
  if redis.call('LPOS', key, order) then return string.rep('1', total) end
  redis.call('LPUSH', key, order)
  redis.call('LTRIM', key, 0, FORCED_MAX - 1)
  redis.call('PEXPIRE', key, FORCED_TTL_MS)
end
local function waiting_in(shard)
  local waiting = tonumber(redis.call('HGET', shard .. 'stats', 'back') or 0)
  for number = 1, QUEUES do waiting = waiting + redis.call('LLEN', shard .. 'front:' .. number) end
  return waiting
end
local full = false
if limit > 0 and ARGV[3] == 'new' then
  local waiting = waiting_in(shard)
  for i = 9, #ARGV - 1 do waiting = waiting + waiting_in(ARGV[i] .. ':') end
  full = waiting >= limit
end

-- Front queues are served in order: a host with millions of URLs would hold up all that come later. So
-- if a queue is long and a host has more than a few new URLs in this call, the surplus goes to the
-- host's back queue. That does not make the host active (it is parked): the few that stay in the front
-- queue do when they have their turn. A host with very many URLs in its back queues needs no more.
local LONG, HOST_FEW, HOST_MANY, SAMPLES = 1000, 32, 180, 16

local function put_back(host, number, surplus)
  local key = shard .. 'host:' .. host
  redis.call('RPUSH', shard .. 'back:' .. host .. ':' .. number, unpack(surplus))
  redis.call('HINCRBY', key, 'waiting', #surplus)
  if number > PAGE_QUEUES then note_typed(host) end
  redis.call('PERSIST', key)
  count('back', #surplus)
end

-- Return the number of its new URLs that a host may have in a front queue.
local function share_of(host, number)
  local key = shard .. 'host:' .. host
  local waiting, keep, parked = unpack(redis.call('HMGET', key, 'waiting', 'keep', 'parked'))
  -- What people set for a host is applied when its URLs are routed.
  if keep then return math.huge end
  waiting, parked = tonumber(waiting or 0), tonumber(parked)
  -- The more important queue gives the host its turn.
  local is_first = waiting == 0 or (parked and number < parked)
  if is_first then redis.call('HSET', key, 'parked', number) end
  return (is_first or waiting < LONG) and HOST_FEW or 0
end

local function without_surplus(number, queue)
  -- Most calls have URLs of many hosts. Some samples show whether one has half of them, or very many: the
  -- links of some pages to their own hosts must not get ahead of what waits.
  local sampled, most = {}, 1
  for i = 0, SAMPLES - 1 do
    local host = host_of(queue[1 + math.floor(i * (#queue - 1) / (SAMPLES - 1))]) or ''
    sampled[host] = (sampled[host] or 0) + 1
    most = math.max(most, sampled[host])
  end
  if most < SAMPLES / 2 and (most == 1 or most * #queue / SAMPLES < HOST_MANY) then return queue end
  local by_host, hosts, stay = {}, {}, {}
  for _, entry in ipairs(queue) do
    local host = host_of(entry) or ''
    if not by_host[host] then
      hosts[#hosts + 1], by_host[host] = host, {}
    end
    table.insert(by_host[host], entry)
  end
  for _, host in ipairs(hosts) do
    local found = by_host[host]
    local share = (host == '' or #found <= HOST_FEW) and #found or math.min(#found, share_of(host, number))
    for i = 1, share do stay[#stay + 1] = found[i] end
    if share < #found then put_back(host, number, {unpack(found, share + 1)}) end
  end
  return stay
end

-- Return functions for the budgets of documents and media, which are counted when they are added: for
-- each host, and in all. Made when the first such URL comes, since most calls have pages only.
local function type_budgets()
  local host6, all6, host7, all7 = string.match(ARGV[5], '(%d+) (%d+) (%d+) (%d+)')
  local of_host = {[6] = tonumber(host6), [7] = tonumber(host7)}
  local of_all = {[6] = tonumber(all6), [7] = tonumber(all7)}
  local counts, totals = {[6] = {}, [7] = {}}, {}
  for number = PAGE_QUEUES + 1, QUEUES do
    local name = 'accepted' .. number
    totals[number] = tonumber(redis.call('HGET', STATS, name) or 0)
    for i = 9, #ARGV - 1 do
      totals[number] = totals[number] + tonumber(redis.call('HGET', ARGV[i] .. ':stats', name) or 0)
    end
  end
  local function host_at(at, length) return host_of(string.sub(entries, at, at + length - 1)) or '' end

  local function are_used_up(number, at, length)
    local host = host_at(at, length)
    local found = counts[number][host]
      or tonumber(redis.call('HGET', shard .. 'accepted:' .. number, host) or 0)
    counts[number][host] = found
    return of_host[number] > 0 and found >= of_host[number]
      or of_all[number] > 0 and totals[number] >= of_all[number]
  end

  local function spend(number, at, length)
    local host = host_at(at, length)
    counts[number][host], totals[number] = counts[number][host] + 1, totals[number] + 1
    redis.call('HINCRBY', shard .. 'accepted:' .. number, host, 1)
    count('accepted' .. number, 1)
  end

  return {are_used_up = are_used_up, spend = spend}
end

-- Return the answer to a URL that is not taken if it is new. Only those of these queues are asked about.
local NO_ROOM, OVER_BUDGET = '2', '3'
local asked_from, budgets = full and 4 or PAGE_QUEUES + 1, nil
local function refuses(number, at, length)
  if number > PAGE_QUEUES then
    budgets = budgets or type_budgets()
    if budgets.are_used_up(number, at, length) and ARGV[3] == 'new' then return OVER_BUDGET end
  end
  return full and NO_ROOM
end

local queues, added, refused = {{}, {}, {}, {}, {}, {}, {}}, 0, 0
at = 1
for i = 1, total do
  local number, length = answer[i], lengths[i]
  local refusal = number >= asked_from and refuses(number, at, length)
  if refusal then
    local known = is_seen(highs[i], lows[i])
    answer[i] = known and '0' or refusal
    if not known and refusal == NO_ROOM then refused = refused + 1 end
  elseif mark_seen(highs[i], lows[i]) or force then
    local queue = queues[number]
    queue[#queue + 1] = string.sub(entries, at, at + length - 1)
    answer[i], added = '1', added + 1
    if number > PAGE_QUEUES then budgets.spend(number, at, length) end
  else
    answer[i] = '0'
  end
  at = at + length
end
for number, queue in ipairs(queues) do
  if #queue > HOST_FEW and redis.call('LLEN', shard .. 'front:' .. number) >= LONG then
    queue = without_surplus(number, queue)
  end
  if #queue > 0 then redis.call('RPUSH', shard .. 'front:' .. number, unpack(queue)) end
end
account_seen()
count('added', added)
count('refused', refused)
return table.concat(answer)
