-- Read or change what the frontier keeps of one host.
--
-- KEYS[1]  shard
-- ARGV[1]  host
-- ARGV[2]  now, ms (0 = the server's clock)
-- ARGV[3…] name, value: 'block' until ms (0 = lift the block), 'exclude' '1' or '0', 'purge' '1',
--          'queue' 1-5 or 0 for each URL's own, 'budget' pages or '' for the crawl's
-- Returns  {clock, delay, waiting, in flight, pages, blocked until, excluded, queue, budget}; all
--          changes are O(1): URLs in the front queues meet them when they are routed

local host, now = ARGV[1], now_ms(ARGV[2])
local key = shard .. 'host:' .. host

local change = {}
function change.block(value)
  local until_ms = tonumber(value)
  local clock, delay = unpack(redis.call('HMGET', key, 'clock', 'delay'))
  clock = tonumber(clock or 0)
  if until_ms == 0 then
    -- Its last contact is not known any more; its own delay from now on is polite in any case.
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
  for number = 1, 5 do
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
end

for i = 3, #ARGV, 2 do assert(change[ARGV[i]], 'a host has no ' .. ARGV[i]) end
for i = 3, #ARGV, 2 do change[ARGV[i]](ARGV[i + 1]) end
local found = redis.call('HMGET', key, 'clock', 'delay', 'waiting', 'tokens', 'blocked', 'excluded',
  'queue', 'budget')
local clock = tonumber(found[1] or 0)
if #ARGV > 2 then
  if redis.call('HEXISTS', key, 'keep') == 1 or tonumber(found[3] or 0) > 0 or (found[4] or '') ~= '' then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIREAT', key, math.max(clock, now) + HOST_TTL_MS)
  end
end
return {clock, tonumber(found[2] or 0), tonumber(found[3] or 0), tokens_in(found[4]),
  tonumber(redis.call('HGET', shard .. 'pages', host) or 0), tonumber(found[5] or 0),
  tonumber(found[6] or 0), tonumber(found[7] or 0), found[8] or ''}
