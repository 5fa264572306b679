-- Part of claim.lua: take URLs from the front queues, to be leased at once or to the back queues.

local ROUTE_LIMIT = 1000

-- The queue whose turn it is; an empty one passes its share on.
local function next_queue(order, turn, sizes)
  for step = 0, #order - 1 do
    local number = string.byte(order, (turn + step) % #order + 1) - 48
    if sizes[number] > 0 then return number end
  end
end

-- What people said of a host decides in O(1) a URL, however many URLs wait.
-- Returns the queue to use, or nil and the reason to drop the URL.
local function host_rules(state, number, popped, host, budget)
  local cut, queue, excluded = state[3], tonumber(state[4]), state[5]
  if excluded then return nil, 'excluded' end
  if cut then
    local purged = tonumber(string.match(cut, string.rep('%d+ ', number - 1) .. '(%d+)'))
    if popped <= purged then return nil, 'purged' end
  end
  if over_budget(host, state[6], budget) then return nil, 'budget' end
  return queue or number
end

-- Front queues are read by chunks and cut once at the end: a call a URL is what costs.
local chunks, taken = {}, {0, 0, 0, 0, 0}
local function take_front(number)
  local chunk = chunks[number]
  if not chunk or chunk.at == #chunk then
    local size = chunk and #chunk * 2 or 8
    chunk = redis.call('LRANGE', shard .. 'front:' .. number, taken[number], taken[number] + size - 1)
    chunk.at, chunks[number] = 0, chunk
  end
  chunk.at, taken[number] = chunk.at + 1, taken[number] + 1
  return chunk[chunk.at]
end

-- Routes until `wanted` URLs were passed to `lease(key, entry, delay, slots)`: a URL of a host that is
-- idle and due needs no back queue. Returns how many URLs still wait in the front queues.
local function route(wanted, now, order, sizes, waiting, parallel, budget, dead_max, lease)
  local out = redis.call('HMGET', STATS, 'turn', 'out1', 'out2', 'out3', 'out4', 'out5')
  local turn, moved, back = tonumber(out[1] or 0), 0, 0
  local popped = {}
  for number = 1, 5 do popped[number] = tonumber(out[number + 1] or 0) end
  local heap = {}
  while wanted > 0 and waiting > 0 and moved < ROUTE_LIMIT do
    local number = next_queue(order, turn, sizes)
    local entry = take_front(number)
    turn, moved, waiting, sizes[number] = turn + 1, moved + 1, waiting - 1, sizes[number] - 1
    popped[number] = popped[number] + 1
    local host = host_of(entry)
    if not host then
      bury_entry(entry, 'damaged', now, dead_max)
    else
      local key = shard .. 'host:' .. host
      local state = redis.call('HMGET', key, 'tokens', 'clock', 'cut', 'queue', 'excluded', 'budget',
        'waiting', 'delay', 'parallel')
      local slots = tonumber(state[9]) or parallel
      local queue, why = host_rules(state, number, popped[number], host, budget)
      local held, clock = tonumber(state[7] or 0), tonumber(state[2] or 0)
      if not queue then
        count('dropped_' .. why, 1)
      elseif held == 0 and clock <= now and (state[1] or '') == '' then
        if state[1] or state[2] then redis.call('PERSIST', key) end
        lease(key, entry, state[8], slots)
        wanted = wanted - 1
      else
        redis.call('RPUSH', shard .. 'back:' .. host .. ':' .. queue, entry)
        redis.call('HSET', key, 'waiting', held + 1)
        back = back + 1
        if held == 0 then
          if state[1] or state[2] then redis.call('PERSIST', key) end
          if tokens_in(state[1]) < slots then
            heap[#heap + 1] = clock
            heap[#heap + 1] = host
          end
        end
      end
    end
  end
  if #heap > 0 then redis.call('ZADD', HEAP, unpack(heap)) end
  if moved > 0 then
    for number = 1, 5 do
      if taken[number] > 0 then redis.call('LTRIM', shard .. 'front:' .. number, taken[number], -1) end
    end
    redis.call('HSET', STATS, 'turn', turn % #order, 'out1', popped[1], 'out2', popped[2],
      'out3', popped[3], 'out4', popped[4], 'out5', popped[5])
    count('back', back)
  end
  return waiting
end
