-- A fetch ended: free the host's slot and start its clock. The lease stays until it is settled.
--
-- KEYS[1]  shard
-- ARGV[1]  now, ms (0 = the shard's time)
-- ARGV[2]  '1' if the hosts usually rest so long, '0' if this says nothing about that, as Retry-After
-- ARGV[3…] host, token, rest in ms: three arguments a fetch
-- Returns  nothing. A token that is not in flight is passed over, so the call may be repeated.

local now, usual = now_ms(ARGV[1]), ARGV[2] == '1'
for i = 3, #ARGV, 3 do
  local rest = tonumber(ARGV[i + 2])
  free_slot(ARGV[i], ARGV[i + 1], now + rest, usual and rest or 0)
end
