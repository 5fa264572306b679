-- Settle leases: their pages are durable and their links are in the frontier.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2…] entry id, token, '1' if it gave a page or '0': three arguments a lease
-- Returns  how many leases were settled; a stale token is passed over

local settled, pages = 0, 0
for i = 2, #ARGV, 3 do
  local entry = take_lease(ARGV[1], ARGV[i], ARGV[i + 1])
  if entry then
    settled = settled + 1
    if ARGV[i + 2] == '1' then
      pages = pages + 1
      redis.call('HINCRBY', shard .. 'pages', host_of(entry) or '', 1)
    end
  end
end
count('done', settled)
count('pages', pages)
return settled
