-- Read or change the state of one host.
--
-- KEYS[1]  shard
-- ARGV[1]  host
-- ARGV[2]  now, ms (0 = the shard's time)
-- ARGV[3…] name, value: 'block' until ms (0 = lift the block), 'exclude' '1' or '0', 'purge' '1',
--          'queue' 1-5 for all its pages or 0 for each URL's own, 'budget' pages or '' for the crawl's,
--          'parallelism' fetches in flight or '' for the crawl's, 'due' ms from now on: the next contact,
--          if that is sooner; but not before the host's own delay, nor during a block
-- Returns  the new state, see host_view.lua. All changes are O(1): they apply to URLs in the front
--          queues when these are routed

numbers(2, 2)
groups(3, 2)
are('zset', HEAP)
are('set', shard .. 'ordered')
local MAY_BE_EMPTY = {block = false, queue = false, due = false, budget = true, parallelism = true,
  exclude = true, purge = true}
for i = 3, #ARGV, 2 do
  local name, value = ARGV[i], ARGV[i + 1]
  expect(MAY_BE_EMPTY[name] ~= nil, 'a host has no ' .. name)
  expect(is_number(value) or (MAY_BE_EMPTY[name] and value == ''), name)
end
local host, now = ARGV[1], now_ms(ARGV[2])
local key = shard .. 'host:' .. host

local change = {}
function change.block(value)
  local until_ms = tonumber(value)
  local clock, delay = unpack(redis.call('HMGET', key, 'clock', 'delay'))
  clock = tonumber(clock or 0)
  if until_ms == 0 then
    -- Its last contact is not known any more. To wait for its own delay from now on is always polite.
    if redis.call('HDEL', key, 'blocked') == 0 then return end
    clock = math.min(clock, now + tonumber(delay or 0))
  else
    redis.call('HSET', key, 'blocked', until_ms)
    clock = math.max(clock, until_ms)
  end
  redis.call('HSET', key, 'clock', clock)
  redis.call('ZADD', HEAP, 'XX', clock, host)
end
function change.exclude(value)
  if value ~= '1' then return redis.call('HDEL', key, 'excluded') end
  drop_waiting(host, 'excluded')
  redis.call('HSET', key, 'excluded', 1, 'keep', 1)
end
function change.purge()
  drop_waiting(host, 'purged')
  local cut = {}
  for number = 1, QUEUES do
    cut[number] = tonumber(redis.call('HGET', STATS, 'out' .. number) or 0)
      + redis.call('LLEN', shard .. 'front:' .. number)
  end
  redis.call('HSET', key, 'cut', table.concat(cut, ' '), 'keep', 1)
end
function change.queue(value)
  if value == '0' then return redis.call('HDEL', key, 'queue') end
  redis.call('HSET', key, 'queue', value, 'keep', 1)
end
function change.budget(value)
  if value == '' then return redis.call('HDEL', key, 'budget') end
  redis.call('HSET', key, 'budget', value, 'keep', 1)
  -- So far nobody noted what was claimed: those in flight are. claim forgets those that ended.
  local claimed, tokens = unpack(redis.call('HMGET', key, 'claimed', 'tokens'))
  claimed = claimed or ''
  for token in string.gmatch(tokens or '', '%d+') do
    if not string.find(' ' .. claimed .. ' ', ' ' .. token .. ' ', 1, true) then
      claimed = claimed .. ' ' .. token
    end
  end
  redis.call('HSET', key, 'claimed', claimed)
end
function change.parallelism(value)
  local own, tokens, waiting, clock, delay = unpack(redis.call('HMGET', key, 'parallel', 'tokens',
    'waiting', 'clock', 'delay'))
  if (own or '') == value then return end
  if value == '' then redis.call('HDEL', key, 'parallel') end
  if value ~= '' then redis.call('HSET', key, 'parallel', value, 'keep', 1) end
  if tokens_in(tokens) == 0 then return end
  -- It is not known when the fetches in flight began: the next one starts after a delay from now.
  clock = math.max(tonumber(clock or 0), now + tonumber(delay or UNKNOWN_DELAY_MS))
  redis.call('HSET', key, 'clock', clock)
  if tonumber(waiting or 0) > 0 then redis.call('ZADD', HEAP, clock, host) end
end
function change.due(value)
  local clock, delay, blocked = unpack(redis.call('HMGET', key, 'clock', 'delay', 'blocked'))
  if not clock or tonumber(blocked or 0) > now then return end
  local wait = math.max(tonumber(value), tonumber(delay or UNKNOWN_DELAY_MS))
  clock = math.min(tonumber(clock), now + wait)
  redis.call('HSET', key, 'clock', clock)
  redis.call('ZADD', HEAP, 'XX', clock, host)
end

for i = 3, #ARGV, 2 do change[ARGV[i]](ARGV[i + 1]) end
if #ARGV > 2 then
  local clock, waiting, tokens, keep, blocked = unpack(redis.call('HMGET', key, 'clock', 'waiting',
    'tokens', 'keep', 'blocked'))
  redis.call((keep or blocked) and 'SADD' or 'SREM', shard .. 'ordered', host)
  if keep or tonumber(waiting or 0) > 0 or (tokens or '') ~= '' then
    redis.call('PERSIST', key)
  else
    expire(key, math.max(tonumber(clock or 0), now))
  end
end
return host_view(host)
