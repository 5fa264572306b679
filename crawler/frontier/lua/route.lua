-- Part of claim: take URLs from the front queues, and lease them or move them to the back queues.

local ROUTE_LIMIT = 1000

-- Return the queue whose turn it is among those in a pattern, and that turn; the shares of all others are
-- passed on. Queues without a share come when there are no others.
local function next_queue(order, turn, among)
  if #among == 3 then return string.byte(among, 2) - 48, turn end
  local at = string.find(order, among, turn % #order + 1) or string.find(order, among)
  return (at and string.byte(order, at) or string.byte(among, 2)) - 48, at or turn
end

-- Return patterns of the queues that are not empty: those of pages, and the types, where 1 is for pages.
local function not_empty(sizes)
  local pages, types = '', ''
  for number = 1, QUEUES do
    if sizes[number] > 0 and number <= PAGE_QUEUES then pages = pages .. number end
    if sizes[number] > 0 and number > PAGE_QUEUES then types = types .. number end
  end
  return '[' .. pages .. ']', pages == '' and '[' .. types .. ']' or '[1' .. types .. ']'
end

-- Front queues are read in chunks of at most `most` URLs and trimmed once at the end, since a call for
-- each URL would be expensive.
local chunks, chunk_at, taken = {}, {}, {}
for number = 1, QUEUES do chunks[number], chunk_at[number], taken[number] = {}, 0, 0 end
local function take_front(number, most)
  local chunk, at = chunks[number], chunk_at[number] + 1
  if at > #chunk then
    local first, size = taken[number], math.min(math.max(8, #chunk * 4), most)
    chunk = redis.call('LRANGE', shard .. 'front:' .. number, first, first + size - 1)
    chunks[number], at = chunk, 1
  end
  chunk_at[number], taken[number] = at, taken[number] + 1
  return chunk[at]
end

-- Return the tokens of a host that are still leased. Those of leases that ended are forgotten here, so
-- that no other verb has to know of budgets.
local owners
local function claimed_by(host)
  local key, held = shard .. 'host:' .. host, {}
  local noted = redis.call('HGET', key, 'claimed')
  if not noted then return held end
  owners = owners or redis.call('ZRANGE', OWNERS, 0, -1)
  for token in string.gmatch(noted, '%d+') do
    for _, owner in ipairs(owners) do
      if redis.call('HEXISTS', shard .. 'leases:' .. owner, token) == 1 then
        held[#held + 1] = token
        break
      end
    end
  end
  return held
end

-- Return what is left of a host's budget of pages: 'used' if it has as many pages, 'claimed' if it may
-- have when its leases are done, and the tokens of these; nil if it has no budget. `own` is a budget
-- for this host alone.
local function budget_of(host, own, budget)
  budget = tonumber(own) or budget
  if budget <= 0 then return nil end
  local pages = tonumber(redis.call('HGET', shard .. 'pages', host) or 0)
  if pages >= budget then return 'used' end
  local held = claimed_by(host)
  return pages + #held >= budget and 'claimed' or 'free', held
end

-- Note that a URL of a host with a budget is leased.
local function note_claimed(key, held, token)
  if not held then return end
  held[#held + 1] = token
  redis.call('HSET', key, 'claimed', table.concat(held, ' '))
end

-- Read what people set for a host. Few hosts have this; their state does not expire.
local function read_rules(host)
  local cut, queue, excluded, own, slots = unpack(redis.call('HMGET', shard .. 'host:' .. host, 'cut',
    'queue', 'excluded', 'budget', 'parallel'))
  return {cut = cut, queue = tonumber(queue), slots = tonumber(slots), budget = own,
    drop = excluded and 'excluded'}
end

-- Return the reason to drop a URL, or nil. O(1), however many URLs wait.
local function reason_to_drop(rules, number, popped)
  if rules.cut and rules.drop ~= 'excluded' then
    if popped <= purged_up_to(rules.cut, number) then return 'purged' end
  end
  return rules.drop
end

-- Read a host once; while URLs are routed its state is kept here, and written once at the end.
local function read_host(host, parallel, budget)
  local key = shard .. 'host:' .. host
  local tokens, clock, held, keep, parked = unpack(redis.call('HMGET', key, 'tokens', 'clock', 'waiting',
    'keep', 'parked'))
  local state = {held = tonumber(held or 0), clock = tonumber(clock or 0), slots = parallel,
    in_flight = tokens_in(tokens)}
  if parked then
    -- The first of its URLs has its turn: so have those that add put into its back queue.
    redis.call('HDEL', key, 'parked')
    if state.held > 0 then redis.call('ZADD', HEAP, digits(state.clock), host) end
  end
  state.may_expire = (tokens or clock) and state.held == 0 and state.in_flight == 0
  if keep then
    state.rules = read_rules(host)
    state.slots = state.rules.slots or parallel
  end
  state.budget, state.claimed = budget_of(host, keep and state.rules.budget, budget)
  if state.budget == 'used' then
    state.rules = state.rules or {}
    state.rules.drop = state.rules.drop or 'budget'
  end
  return state
end

local function stay(host, state)
  if state.may_expire then redis.call('PERSIST', shard .. 'host:' .. host) end
  state.may_expire = false
end

-- Write routed URLs to the back queues; returns their number.
local function write_hosts(hosts, states)
  local heap, back = {}, 0
  for _, host in ipairs(hosts) do
    local state, added = states[host], 0
    for number, list in pairs(state.lists) do
      redis.call('RPUSH', shard .. 'back:' .. host .. ':' .. number, unpack(list))
      added = added + #list
    end
    redis.call('HSET', shard .. 'host:' .. host, 'waiting', digits(state.held + added))
    if state.lists[6] or state.lists[7] then note_typed(host) end
    stay(host, state)
    if state.held == 0 and state.in_flight < state.slots then
      heap[#heap + 1] = digits(state.clock)
      heap[#heap + 1] = host
    end
    back = back + added
  end
  if #heap > 0 then redis.call('ZADD', HEAP, unpack(heap)) end
  return back
end

-- Route until `wanted` URLs were passed to `lease(host, state, entry)`: a URL of a host that is idle
-- and due needs no back queue. `orders` are the turns of the queues of pages, and of the types. `out` has
-- the turn, the numbers of URLs that left each front queue, and the turn of the types.
-- Returns the numbers of URLs that still wait in the front queues, and that went to the back queues.
local function route(wanted, now, orders, sizes, waiting, out, parallel, budget, dead_max, lease)
  local turn, moved, popped = tonumber(out[1] or 0), 0, {}
  for number = 1, QUEUES do popped[number] = tonumber(out[number + 1] or 0) end
  local type_turn = tonumber(out[QUEUES + 2] or 0)
  local first_type_turn = type_turn
  local states, hosts, dropped, gaps = {}, {}, {}, {}
  local pages, types = not_empty(sizes)
  while wanted > 0 and waiting > 0 and moved < ROUTE_LIMIT do
    local number = 1
    if types ~= '[1]' then number, type_turn = next_queue(orders.types, type_turn, types) end
    if number == 1 then number, turn = next_queue(orders.pages, turn, pages), turn + 1 end
    local entry = take_front(number, ROUTE_LIMIT - moved)
    moved, waiting, sizes[number] = moved + 1, waiting - 1, sizes[number] - 1
    if sizes[number] == 0 then pages, types = not_empty(sizes) end
    popped[number] = popped[number] + 1
    local is_gap = entry == GAP
    local host = not is_gap and host_of(entry)
    local state = host and (states[host] or read_host(host, parallel, budget))
    local rules = state and state.rules
    local why = rules and reason_to_drop(rules, number, popped[number])
    if is_gap then
      gaps[number] = (gaps[number] or 0) + 1
    elseif not host then
      bury_entry(entry, 'damaged', now, dead_max)
    elseif why then
      dropped[why] = (dropped[why] or 0) + 1
    elseif state.held == 0 and not state.lists and state.in_flight == 0 and state.clock <= now
      and state.budget ~= 'claimed' then
      stay(host, state)
      lease(host, state, entry)
      wanted = wanted - 1
    else
      if not state.lists then
        hosts[#hosts + 1], state.lists = host, {}
      end
      number = rules and back_queue(number, rules.queue) or number
      local list = state.lists[number] or {}
      list[#list + 1], state.lists[number] = entry, list
    end
    if host then states[host] = state end
  end
  local back = write_hosts(hosts, states)
  for why, number in pairs(dropped) do count('dropped_' .. why, number) end
  for number, of_queue in pairs(gaps) do count('gaps' .. number, -of_queue) end
  if moved > 0 then
    local stats = {'turn', digits(turn % #orders.pages)}
    for number = 1, QUEUES do
      if taken[number] > 0 then
        redis.call('LTRIM', shard .. 'front:' .. number, taken[number], -1)
        stats[#stats + 1], stats[#stats + 2] = 'out' .. number, digits(popped[number])
      end
    end
    redis.call('HSET', STATS, unpack(stats))
    if type_turn ~= first_type_turn then redis.call('HSET', STATS, 'typed', digits(type_turn)) end
  end
  return waiting, back
end
