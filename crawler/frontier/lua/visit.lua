-- Take the slot of a host without a URL of it, as for a part of a page of another host: a visit. For the
-- slot and the clock it is a fetch like those of leases. The host need not be known.
--
-- KEYS[1]  shard
-- ARGV[1]  owner. It has one visit of a host at the most: asked again, after a lost reply, it gets the
--          same token
-- ARGV[2]  host
-- ARGV[3]  now, ms (0 = the shard's time)
-- ARGV[4]  fetches a host may have in flight, unless it has a parallelism of its own
-- ARGV[5]  ms between two starts at a host whose own delay is not known yet
-- ARGV[6]  ms without claims after a restart of the server
-- Returns  {state, token, wait}
--          state: 'ok'; 'early' (its clock is not due), 'busy' (all its slots are taken), 'closed'
--          (people excluded or blocked it); 'paused', 'grace', 'leap', 'dead' as in claim.lua
--          token: '' unless the state is 'ok'
--          wait: ms after which to ask again (-1 = not known)

numbers(6, 3, 4, 5, 6)
are('zset', HEAP, OWNERS)
are('hash', shard .. 'visits:' .. ARGV[1])
local owner, host, now = ARGV[1], ARGV[2], now_ms(ARGV[3])
local key, visits = shard .. 'host:' .. host, shard .. 'visits:' .. owner
epoch(now, tonumber(ARGV[6]))

local function refused(state, wait) return {state, '', wait or -1} end

local claims_from, paused, leap_ms = unpack(redis.call('HMGET', STATS, 'claims_from', 'paused', 'leap_ms'))
if is_dead(owner) then return refused('dead') end
if leap_ms then return refused('leap') end
if now < tonumber(claims_from or 0) then return refused('grace', claims_from - now) end

local tokens, clock, delay, waiting, own, excluded, blocked = unpack(redis.call('HMGET', key, 'tokens',
  'clock', 'delay', 'waiting', 'parallel', 'excluded', 'blocked'))
tokens, clock, waiting = tokens or '', tonumber(clock or 0), tonumber(waiting or 0)
local held = redis.call('HGET', visits, host)
-- After a restart it may have ended all the same.
if held and string.find(' ' .. tokens .. ' ', ' ' .. held .. ' ', 1, true) then return {'ok', held, 0} end
if paused then return refused('paused') end
if excluded or tonumber(blocked or 0) > now then return refused('closed') end
local slots, in_flight = tonumber(own or ARGV[4]), tokens_in(tokens)
if in_flight >= slots then return refused('busy') end
if clock > now then return refused('early', clock - now) end

local token = digits(redis.call('HINCRBY', STATS, 'token', 1))
redis.call('HSET', visits, host, token)
redis.call('HSET', key, 'tokens', tokens == '' and token or tokens .. ' ' .. token)
redis.call('PERSIST', key)
if slots > 1 then
  -- Starts are spaced, as in claim.lua.
  clock = digits(now + tonumber(delay or ARGV[5]))
  redis.call('HSET', key, 'clock', clock)
  if waiting > 0 then redis.call('ZADD', HEAP, 'XX', clock, host) end
end
if in_flight + 1 >= slots then redis.call('ZREM', HEAP, host) end
return {'ok', token, 0}
