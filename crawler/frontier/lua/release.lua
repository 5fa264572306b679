-- End fetches: free the hosts' slots and start their clocks. A lease stays until it is settled.
--
-- KEYS[1]  shard
-- ARGV[1]  now, ms (0 = the shard's time)
-- ARGV[2]  '1' if these are the usual delays of the hosts, '0' if not, as for Retry-After
-- ARGV[3…] host, token, delay in ms: three arguments for each fetch
-- Returns  nothing. Tokens that are not in flight are ignored, so the call may be repeated.

numbers(2, 1)
groups(3, 3, 1, 2)
local now, usual = now_ms(ARGV[1]), ARGV[2] == '1'
for i = 3, #ARGV, 3 do
  local delay = tonumber(ARGV[i + 2])
  free_slot(ARGV[i], ARGV[i + 1], now + delay, usual and delay or 0)
end
