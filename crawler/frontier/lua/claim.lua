-- Lease up to n URLs of hosts that may be contacted now; route URLs from front to back as needed.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2]  request id: the same id again returns the same leases, so that a lost reply loses none
-- ARGV[3]  n; at most 1,000 are leased
-- ARGV[4]  now, ms (0 = the shard's time)
-- ARGV[5]  turns of the queues of pages by weight, a string of digits 1-5
-- ARGV[6]  turns of the queues under load
-- ARGV[7]  number of waiting URLs above which ARGV[6] applies
-- ARGV[8]  turns of the types: 1 for pages, 6, 7. They apply where documents or media wait too
-- ARGV[9]  fetches a host may have in flight, unless it has a parallelism of its own
-- ARGV[10] pages the shard may have in all (0 = no limit), together with those of ARGV[18…]
-- ARGV[11] pages a host may have (0 = no limit)
-- ARGV[12] ms without claims after a restart of the server
-- ARGV[13] dead letters kept
-- ARGV[14] ms between two starts at a host whose own delay is not known yet
-- ARGV[15] ms between two leases on average, over all shards with the same ARGV[16] (0 = no limit)
-- ARGV[16] shard on this server that has the clock of this rate
-- ARGV[17] leases that this owner ended without a fetch since its last claim: they do not count
-- ARGV[18…] other shards on this server
-- Returns  {state, leases, wait_ms, delayed_ms, more}
--          state: 'ok', 'paused', 'grace' (after a restart), 'leap' (the clock leapt, and it is not
--          known yet whether time has passed), 'limit' (no page is left to crawl), 'paced' (the rate
--          allows none now), 'dead' (this owner was declared dead)
--          leases: "<token> <request id> <entry>" each
--          wait_ms, delayed_ms: until the next host, and the next delayed URL, is due (-1 = none);
--          wait_ms is not less than what the rate asks for
--          more: 1 if routing stopped at its limit: claim again at once

numbers(17, 3, 4, 7, 9, 10, 11, 12, 13, 14, 15, 17)
for place = 5, 6 do expect(string.find(ARGV[place], '^[1-5]+$'), 'turns') end
expect(string.find(ARGV[8], '^[167]+$'), 'turns of the types')
are('hash', STATS, shard .. 'leases:' .. ARGV[1], shard .. 'claims', shard .. 'pages')
are('zset', HEAP, shard .. 'delayed')
-- The next beat may decide about the leap.
local LEAP_LOOK_MS = 500
-- A host whose leases may use up its budget waits until they are done.
local BUDGET_LOOK_MS = 200
-- What a crawl has of its rate and does not use, it may use for so long: claims come when they come.
local CATCH_UP_MS = 250
local owner, request = ARGV[1], ARGV[2]
local leases_key = shard .. 'leases:' .. owner
local n, now, parallel = math.min(tonumber(ARGV[3]), 1000), now_ms(ARGV[4]), tonumber(ARGV[9])
local max_pages, budget = tonumber(ARGV[10]), tonumber(ARGV[11])
local interval, rate_stats, unused = tonumber(ARGV[15]), ARGV[16] .. ':stats', tonumber(ARGV[17])
local leases = {}
epoch(now, tonumber(ARGV[12]))

-- When the next lease is due by the rate, and how long after now. By the clock of the server: those of
-- its shards may differ.
local rate_ms, noted_ms, is_capped = 0, 0, false
local function rate_wait() return math.max(0, math.ceil(rate_ms - (now - skew_ms))) end

-- Return how many leases the rate allows now. The next one is never further away than an interval, also
-- after a change of the rate.
local function room_in_rate()
  local real = now - skew_ms
  noted_ms = tonumber(redis.call('HGET', rate_stats, 'rate_ms') or 0)
  rate_ms = math.max(math.min(noted_ms, real + interval) - unused * interval, real - CATCH_UP_MS)
  return rate_ms > real and 0 or 1 + math.floor((real - rate_ms) / interval)
end

local function note_rate()
  if interval == 0 then return end
  rate_ms = rate_ms + #leases * interval
  if rate_ms ~= noted_ms then
    redis.call('HSET', rate_stats, 'rate_ms', string.format('%.3f', rate_ms))
  end
end

local function answer(state, more)
  local head = redis.call('ZRANGE', HEAP, 0, 0, 'WITHSCORES')[2]
  local delayed = redis.call('ZRANGE', shard .. 'delayed', 0, 0)[1]
  local wait = head and math.max(0, head - now) or -1
  -- There may be others in the front queues.
  if is_capped then wait = rate_wait() elseif wait >= 0 then wait = math.max(wait, rate_wait()) end
  local delayed_wait = delayed and math.max(0, delayed - now) or -1
  return {state, leases, wait, delayed_wait, more}
end

local stats = redis.call('HMGET', STATS, 'turn', 'out1', 'out2', 'out3', 'out4', 'out5', 'out6', 'out7',
  'typed', 'claims_from', 'paused', 'back', 'token', 'leap_ms')
local has_types, claims_from, paused, back, token, leap_ms = unpack(stats, QUEUES + 2)
if is_dead(owner) then return answer('dead', 0) end
if leap_ms then return {'leap', {}, LEAP_LOOK_MS, -1, 0} end
if now < tonumber(claims_from or 0) then return {'grace', {}, claims_from - now, -1, 0} end
if redis.call('HGET', shard .. 'claims', owner) == request then
  for _, lease in ipairs(redis.call('HVALS', leases_key)) do
    if string.match(lease, '^%d+ (%S+)') == request then leases[#leases + 1] = lease end
  end
  return answer('ok', 0)
end
if paused then return {'paused', {}, -1, -1, 0} end
if max_pages > 0 then
  local room, shards = max_pages, {shard}
  for i = 18, #ARGV do shards[#shards + 1] = ARGV[i] .. ':' end
  for _, each in ipairs(shards) do
    room = room - tonumber(redis.call('HGET', each .. 'stats', 'pages') or 0)
  end
  if room <= 0 then return {'limit', {}, -1, -1, 0} end
  for _, each in ipairs(shards) do
    for _, other in ipairs(redis.call('ZRANGE', each .. 'owners', 0, -1)) do
      room = room - redis.call('HLEN', each .. 'leases:' .. other)
    end
  end
  n = math.min(n, room)
  -- The rest is in flight: claim again later.
  if n <= 0 then return {'ok', {}, -1, -1, 0} end
end
if interval > 0 then
  local room = room_in_rate()
  is_capped = room < n
  n = math.min(n, room)
  if n <= 0 then
    note_rate()
    return {'paced', {}, rate_wait(), -1, 0}
  end
end

local sizes, waiting = {}, 0
for number = 1, QUEUES do
  sizes[number] = redis.call('LLEN', shard .. 'front:' .. number)
  waiting = waiting + sizes[number]
end
local order = waiting + tonumber(back or 0) > tonumber(ARGV[7]) and ARGV[6] or ARGV[5]

local records = {}
token = tonumber(token or 0)
-- Note a lease and return its token.
local function record(entry)
  token = token + 1
  local name = digits(token)
  local lease = name .. ' ' .. request .. ' ' .. entry
  records[#records + 1] = name
  records[#records + 1] = lease
  leases[#leases + 1] = lease
  return name
end

-- Most hosts have URLs in one or two of the five queues: popping needs fewer calls than LLEN.
local function pop_page(host, turn)
  local left = '12345'
  while left ~= '' do
    local number = next_queue(order, turn, '[' .. left .. ']')
    local entry = redis.call('LPOP', shard .. 'back:' .. host .. ':' .. number)
    if entry then return entry end
    left = string.gsub(left, number, '')
  end
end

-- Return a URL of a host, and the next turn of its types. Most hosts have none, or it is not known that
-- they do: then all but pages come last.
local function pop_back(host, turn, typed)
  local left = '167'
  while left ~= '' do
    local number, at = 1, nil
    if typed then
      number, at = next_queue(ARGV[8], typed, '[' .. left .. ']')
    elseif left ~= '167' then
      number = tonumber(string.sub(left, 1, 1))
    end
    local entry
    if number == 1 then
      entry = pop_page(host, turn)
    else
      entry = redis.call('LPOP', shard .. 'back:' .. host .. ':' .. number)
    end
    if entry then return entry, at end
    left = string.gsub(left, number, '')
  end
end

-- Changes of the heap, made together: hosts to remove, and new times of those that stay.
local off_heap, on_heap = {}, {}

-- If a host may have several fetches, their starts are spaced. The clock also holds for URLs that are
-- routed later.
local function next_start(key)
  return now + tonumber(redis.call('HGET', key, 'delay') or ARGV[14])
end

-- Few crawls have hosts with more than pages.
local READ = {'tokens', 'turn', 'waiting', 'keep', has_types and 'typed' or nil}
local function lease_from(host)
  local key, slots, own = shard .. 'host:' .. host, parallel, nil
  local tokens, turn, held, keep, typed = unpack(redis.call('HMGET', key, unpack(READ)))
  if keep then
    own, slots = unpack(redis.call('HMGET', key, 'budget', 'parallel'))
    slots = tonumber(slots) or parallel
  end
  local left, claimed = budget_of(host, own, budget)
  if left == 'used' then return drop_waiting(host, 'budget') end
  if left == 'claimed' then return redis.call('ZADD', HEAP, digits(now + BUDGET_LOOK_MS), host) end
  local in_flight = tokens_in(tokens)
  -- Too many are in flight, as after a restart: the last one to end puts the host back on the heap.
  if in_flight >= slots then return redis.call('ZREM', HEAP, host) end
  turn, held = tonumber(turn or 0), held - 1
  local entry, next_type = pop_back(host, turn, tonumber(typed))
  local name = record(entry)
  if next_type then redis.call('HSET', key, 'typed', digits(next_type)) end
  note_claimed(key, claimed, name)
  tokens = in_flight > 0 and tokens .. ' ' .. name or name
  turn = digits((turn + 1) % #order)
  if slots == 1 then
    redis.call('HSET', key, 'tokens', tokens, 'turn', turn, 'waiting', digits(held))
  else
    local clock = digits(next_start(key))
    redis.call('HSET', key, 'tokens', tokens, 'turn', turn, 'waiting', digits(held), 'clock', clock)
    if in_flight + 1 < slots and held > 0 then
      on_heap[#on_heap + 1] = clock
      on_heap[#on_heap + 1] = host
      return
    end
  end
  off_heap[#off_heap + 1] = host
end

-- Lease a URL of a host that is due and has nothing waiting or in flight: it needs no back queue.
local function lease_at_once(host, state, entry)
  local key, name = shard .. 'host:' .. host, record(entry)
  state.in_flight = 1
  note_claimed(key, state.claimed, name)
  if state.slots > 1 then
    state.clock = next_start(key)
    redis.call('HSET', key, 'tokens', name, 'clock', digits(state.clock))
  else
    redis.call('HSET', key, 'tokens', name)
  end
end

-- A key of another type ends this claim, after what was taken before is noted.
local is_well, failure = true, nil
for _, host in ipairs(redis.call('ZRANGEBYSCORE', HEAP, '-inf', now, 'LIMIT', 0, n)) do
  is_well, failure = pcall(lease_from, host)
  if not is_well then break end
end
if #off_heap > 0 then redis.call('ZREM', HEAP, unpack(off_heap)) end
if #on_heap > 0 then redis.call('ZADD', HEAP, unpack(on_heap)) end
local from_back, to_back = #leases, 0
if is_well and #leases < n then
  local orders = {pages = order, types = ARGV[8]}
  waiting, to_back = route(n - #leases, now, orders, sizes, waiting, stats, parallel, budget,
    tonumber(ARGV[13]), lease_at_once)
end
count('back', to_back - from_back)
note_rate()
if #leases > 0 then
  redis.call('HSET', leases_key, unpack(records))
  redis.call('HSET', STATS, 'token', digits(token))
  redis.call('HSET', shard .. 'claims', owner, request)
  count('claimed', #leases)
end
if not is_well then error(failure) end
return answer('ok', (waiting > 0 and #leases < n) and 1 or 0)
