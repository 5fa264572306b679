-- A fetch ended: free the host's slot and start its clock. The lease stays until it is settled.
--
-- KEYS[1]  shard
-- ARGV[1]  now, ms (0 = the server's clock)
-- ARGV[2…] host, token, delay in ms: three arguments a fetch
-- Returns  nothing. A token that is not in flight is passed over, so the call may be repeated.

local now = now_ms(ARGV[1])
for i = 2, #ARGV, 3 do
  local delay = tonumber(ARGV[i + 2])
  free_slot(ARGV[i], ARGV[i + 1], now + delay, delay)
end
