-- Part of done and retry: which leases may be settled as finished, and slots that a restart left.

-- A server that restarted may have lost links that it had acknowledged, so a URL that was leased before
-- is not finished: it waits again. `grace` is the ms without claims after a restart, or '' if all
-- links are known to be here. Returns the last token that is not trusted.
local function last_untrusted(grace)
  if grace == '' then return 0 end
  if restarted() then epoch(now_ms('0'), tonumber(grace)) end
  return tonumber(redis.call('HGET', STATS, 'trusted_from') or 0)
end

-- Free the slot that a settled lease still has: the restart lost the end of its fetch, and its process
-- may end before it is told so. The host waits for its usual delay.
local function free_unreleased(entry, token, now)
  local host = host_of(entry)
  if not host then return end
  local delay = tonumber(redis.call('HGET', shard .. 'host:' .. host, 'delay') or UNKNOWN_DELAY_MS)
  free_slot(host, token, now + delay, 0)
end
