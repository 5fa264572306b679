-- Move leased URLs to the delay queue.
--
-- KEYS[1]  shard
-- ARGV[1]  owner
-- ARGV[2]  now, ms (0 = the shard's time)
-- ARGV[3]  'r' for retries, which a crawl waits for. For recrawls, which are finished for now and which
--          a crawl does not wait for: 'c' after a page, 'v' after a visit without one
-- ARGV[4]  ms without claims after a restart of the server, or '', see trust.lua; for recrawls
-- ARGV[5…] token, delay in ms, entry to keep: three arguments for each lease
-- Returns  number of settled leases; stale tokens are ignored

numbers(4, 2)
optional(4)
groups(5, 3, 0, 1)
expect(ARGV[3] == 'r' or ARGV[3] == 'c' or ARGV[3] == 'v', 'kind')
are('zset', shard .. 'delayed')
are('hash', STATS, shard .. 'pages')
local now, kind, settled, untrusted = now_ms(ARGV[2]), ARGV[3], 0, 0
if kind ~= 'r' then untrusted = last_untrusted(ARGV[4]) end
local mark, again = kind == 'r' and 'r' or 'c', 0

for i = 5, #ARGV, 3 do
  local entry = take_lease(ARGV[1], ARGV[i])
  local is_untrusted = tonumber(ARGV[i]) <= untrusted
  if entry and is_untrusted and host_of(entry) then
    wait_again(entry)
    settled, again = settled + 1, again + 1
  elseif entry then
    if kind == 'c' then redis.call('HINCRBY', shard .. 'pages', host_of(entry) or '', 1) end
    delay_record(bucket_of(now, tonumber(ARGV[i + 1])), mark .. ARGV[i + 2])
    settled = settled + 1
  end
  -- Its URL is safe by now, whatever the host's key holds.
  if entry and (is_untrusted or kind == 'r') then free_unreleased(entry, ARGV[i], now) end
end
if kind == 'r' then
  count('retries', settled)
  count('retried', settled)
else
  count('recrawls', settled - again)
  count('done', settled - again)
  if kind == 'c' then count('pages', settled - again) end
end
return settled
