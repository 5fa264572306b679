-- Move leased URLs to the dead-letter queue.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2]  how many dead letters are kept; older ones are trimmed
-- ARGV[3…] entry id, token, reason: three arguments a lease
-- Returns  how many leases were settled; a stale token is passed over

local settled = 0
for i = 3, #ARGV, 3 do
  local entry = take_lease(ARGV[1], ARGV[i], ARGV[i + 1])
  if entry then
    redis.call('XADD', shard .. 'dead', 'MAXLEN', '~', ARGV[2], '*', 'entry', entry, 'reason', ARGV[i + 2])
    settled = settled + 1
  end
end
count('dead', settled)
return settled
