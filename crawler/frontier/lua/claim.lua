-- Lease up to n URLs of hosts that may be contacted now; route URLs from front to back as needed.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2]  request id: the same id again returns the same leases, so that a lost reply loses none
-- ARGV[3]  n
-- ARGV[4]  now, ms (0 = the server's clock)
-- ARGV[5]  order of the queues by weight, a string of digits 1-5
-- ARGV[6]  the same under load
-- ARGV[7]  load: number of waiting URLs in the front queues above which ARGV[6] applies
-- ARGV[8]  fetches a host may have in flight
-- ARGV[9]  pages the crawl may have in all (0 = no limit)
-- Returns  {state, leases, wait_ms, delayed_ms, more}
--          state: 'ok', 'dead' (this owner was declared dead), 'limit' (no page is left to crawl)
--          leases: "<token> <request id> <entry>" each
--          wait_ms: until the next host is due, delayed_ms: until the next delayed URL is (-1 = none)
--          more: 1 when routing stopped at its limit and should go on at once

local ROUTE_LIMIT = 1000
local owner, request = ARGV[1], ARGV[2]
local leases_key = shard .. 'leases:' .. owner
local n, now, parallel, max_pages = tonumber(ARGV[3]), now_ms(ARGV[4]), tonumber(ARGV[8]), tonumber(ARGV[9])
local leases = {}

local function answer(state, more)
  local head = redis.call('ZRANGE', HEAP, 0, 0, 'WITHSCORES')
  local delayed = redis.call('ZRANGE', shard .. 'delayed', 0, 0)
  local wait = head[2] and math.max(0, head[2] - now) or -1
  local delayed_wait = delayed[1] and math.max(0, delayed[1] - now) or -1
  return {state, leases, wait, delayed_wait, more}
end

if not redis.call('ZSCORE', shard .. 'owners', owner) then return answer('dead', 0) end
if redis.call('HGET', shard .. 'claims', owner) == request then
  for _, lease in ipairs(redis.call('HVALS', leases_key)) do
    if string.match(lease, '^%d+ (%S+)') == request then leases[#leases + 1] = lease end
  end
  return answer('ok', 0)
end
if max_pages > 0 then
  local held = 0
  for _, other in ipairs(redis.call('ZRANGE', shard .. 'owners', 0, -1)) do
    held = held + redis.call('HLEN', shard .. 'leases:' .. other)
  end
  local room = max_pages - tonumber(redis.call('HGET', STATS, 'pages') or 0)
  if room <= 0 then return answer('limit', 0) end
  n = math.min(n, room - held)
  if n <= 0 then return {'ok', {}, -1, -1, 0} end  -- others hold what is left; ask again later
end

local sizes, waiting = {}, 0
for number = 1, 5 do
  sizes[number] = redis.call('LLEN', shard .. 'front:' .. number)
  waiting = waiting + sizes[number]
end
local order = waiting > tonumber(ARGV[7]) and ARGV[6] or ARGV[5]

-- The queue whose turn it is; an empty one passes its share on.
local function next_queue(turn)
  for step = 0, #order - 1 do
    local number = string.byte(order, (turn + step) % #order + 1) - 48
    if sizes[number] > 0 then return number end
  end
end

local turn, moved = tonumber(redis.call('HGET', STATS, 'turn') or 0), 0
local ready = redis.call('ZCOUNT', HEAP, '-inf', now)
while ready < n and waiting > 0 and moved < ROUTE_LIMIT do
  local number = next_queue(turn)
  local entry = redis.call('LPOP', shard .. 'front:' .. number)
  local host = host_of(entry)
  local key = shard .. 'host:' .. host
  redis.call('RPUSH', shard .. 'back:' .. host .. ':' .. number, entry)
  if redis.call('HINCRBY', key, 'waiting', 1) == 1 then
    local state = redis.call('HMGET', key, 'tokens', 'clock')
    redis.call('PERSIST', key)
    local _, busy = string.gsub(state[1] or '', '%d+', '')
    if busy < parallel then
      local clock = tonumber(state[2] or 0)
      redis.call('ZADD', HEAP, clock, host)
      if clock <= now then ready = ready + 1 end
    end
  end
  turn, moved, waiting, sizes[number] = turn + 1, moved + 1, waiting - 1, sizes[number] - 1
end
if moved > 0 then
  redis.call('HSET', STATS, 'turn', turn % #order)
  count('back', moved)
end

local token = tonumber(redis.call('HGET', STATS, 'token') or 0)
local due = redis.call('ZRANGEBYSCORE', HEAP, '-inf', now, 'LIMIT', 0, n)
for _, host in ipairs(due) do
  local key = shard .. 'host:' .. host
  local state = redis.call('HMGET', key, 'tokens', 'turn', 'waiting', 'delay')
  local host_turn, entry = tonumber(state[2] or 0)
  for number = 1, 5 do sizes[number] = redis.call('LLEN', shard .. 'back:' .. host .. ':' .. number) end
  local number = next_queue(host_turn)
  entry = redis.call('LPOP', shard .. 'back:' .. host .. ':' .. number)
  token = token + 1
  local lease = token .. ' ' .. request .. ' ' .. entry
  redis.call('HSET', leases_key, entry_id(entry), lease)
  leases[#leases + 1] = lease
  local tokens = state[1] and state[1] ~= '' and state[1] .. ' ' .. token or tostring(token)
  redis.call('HSET', key, 'tokens', tokens, 'turn', (host_turn + 1) % #order, 'waiting', state[3] - 1)
  local _, busy = string.gsub(tokens, '%d+', '')
  if busy < parallel and tonumber(state[3]) > 1 then
    redis.call('ZADD', HEAP, now + tonumber(state[4] or 0), host)
  else
    redis.call('ZREM', HEAP, host)
  end
end
if #leases > 0 then
  redis.call('HSET', STATS, 'token', token)
  redis.call('HSET', shard .. 'claims', owner, request)
  count('back', -#leases)
  count('claimed', #leases)
end
return answer('ok', (waiting > 0 and #leases < n) and 1 or 0)
