-- Repeat the fetches and delays of an instance after a restart of the server, which may have lost
-- them, so that no host is contacted by two instances, or too soon.
--
-- KEYS[1]  shard
-- ARGV[1]  now, ms (0 = the shard's time)
-- ARGV[2]  fetches a host may have in flight, unless it has a parallelism of its own
-- ARGV[3]  owner
-- ARGV[4]  number of fetches that follow
-- ARGV[5…] host, token: a fetch in flight; then host, ms of delay that are left: a recent contact
-- Returns  nothing

numbers(4, 1, 2, 4)
groups(5, 2)
expect(2 * tonumber(ARGV[4]) <= #ARGV - 4, 'number of fetches')
for i = 6, #ARGV, 2 do expect(is_number(ARGV[i]), 'number ' .. i .. ' is no number') end
are('zset', HEAP)
are('hash', shard .. 'flights:' .. ARGV[3])
local now, parallel, flights = now_ms(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local flights_key = shard .. 'flights:' .. ARGV[3]
local highest = tonumber(redis.call('HGET', STATS, 'token') or 0)
redis.call('UNLINK', flights_key)
for i = 5, #ARGV, 2 do
  local host, key = ARGV[i], shard .. 'host:' .. ARGV[i]
  local tokens, clock, waiting, keep, slots = unpack(redis.call('HMGET', key, 'tokens', 'clock',
    'waiting', 'keep', 'parallel'))
  if i < 5 + 2 * flights then
    local token = ARGV[i + 1]
    redis.call('HSET', flights_key, token, host)
    highest = math.max(highest, tonumber(token))
    if not string.find(' ' .. (tokens or '') .. ' ', ' ' .. token .. ' ', 1, true) then
      tokens = tokens and tokens ~= '' and tokens .. ' ' .. token or token
      redis.call('HSET', key, 'tokens', tokens)
      redis.call('PERSIST', key)
    end
    if tokens_in(tokens) >= (tonumber(slots) or parallel) then redis.call('ZREM', HEAP, host) end
  else
    local next_contact = now + tonumber(ARGV[i + 1])
    if next_contact > tonumber(clock or 0) then
      redis.call('HSET', key, 'clock', next_contact)
      if tonumber(waiting or 0) > 0 then
        redis.call('ZADD', HEAP, 'XX', next_contact, host)
      elseif (tokens or '') == '' and not keep then
        expire(key, next_contact)
      end
    end
  end
end
-- Tokens of fetches that began just before the restart must not be given out again.
redis.call('HSET', STATS, 'token', highest)
