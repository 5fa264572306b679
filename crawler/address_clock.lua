-- When a host may contact an address that other hosts have too.
--
-- A host that must wait has a start kept for it, so that it waits once, however many others do.
--
-- KEYS[1]  hash of the address: '*' -> its next free start, ms; <host> -> the start kept for it, ms
-- ARGV[1]  host
-- ARGV[2]  ms between two starts
-- ARGV[3]  now, ms (0 = the server's clock)
-- Returns  ms to wait; 0: now, and the start is taken

-- A start that nobody came for until then is lost. Those who come late keep it: a busy fleet would
-- else lose all of them.
local KEPT_MS = 60000
local key, host, delay, now = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local free, kept = unpack(redis.call('HMGET', key, '*', host))
if kept then
  if now < tonumber(kept) then return kept - now end
  redis.call('HDEL', key, host)
  if now - kept < KEPT_MS then return 0 end
end
local start = math.max(now, tonumber(free or 0))
redis.call('HSET', key, '*', string.format('%d', start + delay))
if start > now then redis.call('HSET', key, host, string.format('%d', start)) end
redis.call('PEXPIRE', key, start - now + delay + KEPT_MS)
return start - now
