-- Settle leases: their pages are durable and their links are in the frontier.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2…] entry id, token, '1' if it gave a page or '0': three arguments a lease
-- Returns  how many leases were settled; a stale token is passed over

local key, ids, gone, hosts = shard .. 'leases:' .. ARGV[1], {}, {}, {}
for i = 2, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
-- All leases in one call each way; the removal comes first, so that this runs in a full server.
for number, lease in ipairs(#ids > 0 and redis.call('HMGET', key, unpack(ids)) or {}) do
  local i = number * 3 - 1
  local token, start = string.match(lease or '', '^(%d+) %S+ ()')
  if token == ARGV[i + 1] then
    gone[#gone + 1] = ARGV[i]
    if ARGV[i + 2] == '1' then hosts[#hosts + 1] = host_of(string.sub(lease, start)) or '' end
  end
end
local settled = #gone > 0 and redis.call('HDEL', key, unpack(gone)) or 0
for _, host in ipairs(hosts) do redis.call('HINCRBY', shard .. 'pages', host, 1) end
count('done', settled)
count('pages', #hosts)
return settled
