-- Move leased URLs to the dead-letter queue.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2]  now, ms (0 = the shard's time)
-- ARGV[3]  dead letters kept; older ones are trimmed and counted
-- ARGV[4…] token, reason: two arguments a lease
-- Returns  how many leases were settled; a stale token is passed over

local now, settled = now_ms(ARGV[2]), 0
for i = 4, #ARGV, 2 do
  local entry = take_lease(ARGV[1], ARGV[i])
  if entry then
    bury_entry(entry, ARGV[i + 1], now, ARGV[3])
    -- One that the claimant could not read was never released. Whoever forgot to release another
    -- one may have fetched it, so its host has its usual delay.
    local host = host_of(entry)
    if host then
      local delay = tonumber(redis.call('HGET', shard .. 'host:' .. host, 'delay') or 0)
      free_slot(host, ARGV[i], now + delay, 0)
    end
    settled = settled + 1
  end
end
return settled
