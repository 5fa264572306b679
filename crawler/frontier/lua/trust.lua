-- Part of done and retry: which leases may be settled as finished.

-- A server that restarted may have lost links that it had acknowledged, so a URL that was leased before
-- is not finished: it waits again. `grace` is the ms without claims after a restart, or '' if all
-- links are known to be here. Returns the last token that is not trusted.
local function last_untrusted(grace)
  if grace == '' then return 0 end
  if restarted() then epoch(now_ms('0'), tonumber(grace)) end
  return tonumber(redis.call('HGET', STATS, 'trusted_from') or 0)
end

-- Free the host of a lease that is settled, if it is still taken: its fetch has ended, but a server that
-- restarted may have lost the release. If the owner died before it repeats that with its next beat, the
-- slot would stay taken by no lease.
local function free_lost(entry, token, now)
  local host = host_of(entry)
  if not host then return end
  local delay = tonumber(redis.call('HGET', shard .. 'host:' .. host, 'delay') or UNKNOWN_DELAY_MS)
  free_slot(host, token, now + delay, 0)
end
