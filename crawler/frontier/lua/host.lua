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
  if until_ms == 0 then
    redis.call('HDEL', key, 'blocked')
    redis.call('HSET', key, 'clock', now)
  else
    redis.call('HSET', key, 'blocked', until_ms)
    local clock = math.max(until_ms, tonumber(redis.call('HGET', key, 'clock') or 0))
    redis.call('HSET', key, 'clock', clock)
  end
  redis.call('ZADD', HEAP, 'XX', redis.call('HGET', key, 'clock'), host)
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

for i = 3, #ARGV, 2 do change[ARGV[i]](ARGV[i + 1]) end
if redis.call('EXISTS', key) == 1 then redis.call('PERSIST', key) end
local found = redis.call('HMGET', key, 'clock', 'delay', 'waiting', 'tokens', 'blocked', 'excluded',
  'queue', 'budget')
local clock = tonumber(found[1] or 0)
if #ARGV > 2 and not found[3] and (found[4] or '') == '' and redis.call('HEXISTS', key, 'keep') == 0 then
  redis.call('PEXPIREAT', key, math.max(clock, now) + HOST_TTL_MS)
end
return {clock, tonumber(found[2] or 0), tonumber(found[3] or 0), tokens_in(found[4]),
  tonumber(redis.call('HGET', shard .. 'pages', host) or 0), tonumber(found[5] or 0),
  tonumber(found[6] or 0), tonumber(found[7] or 0), found[8] or ''}
