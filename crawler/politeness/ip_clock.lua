-- When a host may contact an address that other hosts have too.
--
-- A host that must wait has a start kept for it, so that it waits once, however many others do; but
-- for no more than HORIZON_MS, so that hosts that never come again hold nobody up.
--
-- KEYS[1]  hash of the address: '*' -> its next free start, ms; <host> -> the start kept for it, ms
-- ARGV[1]  host
-- ARGV[2]  ms between two starts
-- ARGV[3]  now, ms (0 = the server's clock)
-- Returns  ms to wait; 0: now, and the start is taken

local HORIZON_MS = 30000
-- Who comes later than this for its start has lost it: after a pause all would come at once. A busy
-- fleet is always a little late.
local LATE_MS = 1000
local key, host, delay, now = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local free, kept = unpack(redis.call('HMGET', key, '*', host))
if kept then
  if now < tonumber(kept) then return kept - now end
  redis.call('HDEL', key, host)
  if now - kept < delay + LATE_MS then return 0 end
end
-- Starts of hosts that never came for them.
if redis.call('HLEN', key) > 2 * HORIZON_MS / delay + 100 then
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    if fields[i] ~= '*' and fields[i + 1] + delay + LATE_MS < now then
      redis.call('HDEL', key, fields[i])
    end
  end
end
local start = math.max(now, tonumber(free or 0))
if start - now > HORIZON_MS then return HORIZON_MS end
redis.call('HSET', key, '*', string.format('%d', start + delay))
if start > now then redis.call('HSET', key, host, string.format('%d', start)) end
redis.call('PEXPIRE', key, start - now + 2 * delay + LATE_MS)
return start - now
