-- Settle leases: their pages are durable and their links are in the frontier.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2]  ms that claims rest after a restart of the server, or '' to trust that all links are here:
--          a server that restarted may have lost links that it had acknowledged, so a URL that was
--          leased before is not done, it waits again
-- ARGV[3…] token, '1' if it gave a page or '0': two arguments a lease
-- Returns  how many leases were settled; a stale token is passed over

local key, tokens, gone, hosts = shard .. 'leases:' .. ARGV[1], {}, {}, {}
local again, trusted_from = {}, 0
if ARGV[2] ~= '' then
  if restarted() then epoch(now_ms('0'), tonumber(ARGV[2])) end
  trusted_from = tonumber(redis.call('HGET', STATS, 'trusted_from') or 0)
end
for i = 3, #ARGV, 2 do tokens[#tokens + 1] = ARGV[i] end
-- All leases in one call each way; the removal comes first, so that this runs in a full server.
for number, lease in ipairs(#tokens > 0 and redis.call('HMGET', key, unpack(tokens)) or {}) do
  if lease then
    gone[#gone + 1] = tokens[number]
    local entry = entry_of(lease)
    if tonumber(tokens[number]) <= trusted_from and host_of(entry) then
      again[#again + 1] = entry
    elseif ARGV[number * 2 + 2] == '1' then
      hosts[#hosts + 1] = host_of(entry) or ''
    end
  end
end
local settled = #gone > 0 and redis.call('HDEL', key, unpack(gone)) or 0
for _, entry in ipairs(again) do
  redis.call('LPUSH', shard .. 'front:' .. queue_of(entry), entry)
  count('out' .. queue_of(entry), -1)
end
for _, host in ipairs(hosts) do redis.call('HINCRBY', shard .. 'pages', host, 1) end
count('done', settled - #again)
count('pages', #hosts)
return settled
