-- Settle leases: their pages are durable and their links are in the frontier.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2]  ms without claims after a restart of the server, or '', see trust.lua
-- ARGV[3…] token, '1' if the URL gave a page or '0': two arguments for each lease
-- Returns  number of settled leases; stale tokens are ignored

numbers(2)
optional(2)
groups(3, 2, 0)
are('hash', STATS, shard .. 'pages')
local key, tokens, gone, hosts = shard .. 'leases:' .. ARGV[1], {}, {}, {}
local again, untrusted = {}, last_untrusted(ARGV[2])
for i = 3, #ARGV, 2 do tokens[#tokens + 1] = ARGV[i] end
-- One call reads all leases and one removes them. The removal comes first, so that this runs in a
-- full server.
for number, lease in ipairs(#tokens > 0 and redis.call('HMGET', key, unpack(tokens)) or {}) do
  if lease then
    gone[#gone + 1] = tokens[number]
    local entry = entry_of(lease)
    if tonumber(tokens[number]) <= untrusted and host_of(entry) then
      again[#again + 1] = {entry, tokens[number]}
    elseif ARGV[number * 2 + 2] == '1' then
      hosts[#hosts + 1] = host_of(entry) or ''
    end
  end
end
local settled = #gone > 0 and redis.call('HDEL', key, unpack(gone)) or 0
for _, lease in ipairs(again) do wait_again(lease[1]) end
for _, lease in ipairs(again) do free_unreleased(lease[1], lease[2], now_ms(0)) end
for _, host in ipairs(hosts) do redis.call('HINCRBY', shard .. 'pages', host, 1) end
count('done', settled - #again)
count('pages', #hosts)
return settled
