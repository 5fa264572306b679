-- Part of claim.lua: move URLs from the front queues to the back queues of their hosts.

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

-- Routes until `wanted` hosts are ready; returns how many URLs still wait in the front queues.
local function route(wanted, now, order, sizes, waiting, parallel, budget, dead_max)
  local turn, moved, back = tonumber(redis.call('HGET', STATS, 'turn') or 0), 0, 0
  local popped = {0, 0, 0, 0, 0}
  for number = 1, 5 do popped[number] = tonumber(redis.call('HGET', STATS, 'out' .. number) or 0) end
  local ready = redis.call('ZCOUNT', HEAP, '-inf', now)
  while ready < wanted and waiting > 0 and moved < ROUTE_LIMIT do
    local number = next_queue(order, turn, sizes)
    local entry = redis.call('LPOP', shard .. 'front:' .. number)
    turn, moved, waiting, sizes[number] = turn + 1, moved + 1, waiting - 1, sizes[number] - 1
    popped[number] = popped[number] + 1
    local host = host_of(entry)
    if not host then
      bury_entry(entry, 'damaged', now, dead_max)
    else
      local key = shard .. 'host:' .. host
      local state = redis.call('HMGET', key, 'tokens', 'clock', 'cut', 'queue', 'excluded', 'budget')
      local queue, why = host_rules(state, number, popped[number], host, budget)
      if not queue then
        count('dropped_' .. why, 1)
      else
        redis.call('RPUSH', shard .. 'back:' .. host .. ':' .. queue, entry)
        back = back + 1
        if redis.call('HINCRBY', key, 'waiting', 1) == 1 then
          redis.call('PERSIST', key)
          local clock = tonumber(state[2] or 0)
          if tokens_in(state[1]) < parallel then
            redis.call('ZADD', HEAP, clock, host)
            if clock <= now then ready = ready + 1 end
          end
        end
      end
    end
  end
  if moved > 0 then
    redis.call('HSET', STATS, 'turn', turn % #order, 'out1', popped[1], 'out2', popped[2],
      'out3', popped[3], 'out4', popped[4], 'out5', popped[5])
    count('back', back)
  end
  return waiting
end
