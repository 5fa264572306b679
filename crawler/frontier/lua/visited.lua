-- End visits: free the hosts' slots and start their clocks.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2]  now, ms (0 = the shard's time)
-- ARGV[3]  '1' if these are the usual delays of the hosts, '0' if not, as for Retry-After
-- ARGV[4…] host, token, delay in ms: three arguments for each visit
-- Returns  nothing. Tokens that are not in flight are ignored, so the call may be repeated. A slot is
--          freed by its token, also if a restart of the server lost the visit and it was reported again

numbers(3, 2)
groups(4, 3, 1, 2)
local owner, now, usual = ARGV[1], now_ms(ARGV[2]), ARGV[3] == '1'
local visits, flights = shard .. 'visits:' .. owner, shard .. 'flights:' .. owner
for i = 4, #ARGV, 3 do
  local host, token, delay = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  if redis.call('HGET', visits, host) == token then redis.call('HDEL', visits, host) end
  redis.call('HDEL', flights, token)
  free_slot(host, token, now + delay, usual and delay or 0)
end
