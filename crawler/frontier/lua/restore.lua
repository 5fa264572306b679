-- Take URLs that are in a store into the frontier as if they had been crawled. Known ones stay as they
-- are, so that it may be repeated.
--
-- KEYS[1]  shard
-- ARGV[1]  now, ms (0 = the shard's time)
-- ARGV[2…] entry, '1' if the URL gave a page or '0', ms until its next visit or '' if there is none: three
--          arguments for each URL
-- the last: form of URL-seen, see seen_intset.lua and seen_bloom.lua
-- Returns  a string with a character for each URL: '1' taken, '0' known

numbers(2, 1)
expect(#ARGV % 3 == 2, 'they are no groups of 3')
are('hash', STATS, shard .. 'pages', shard .. 'accepted:6', shard .. 'accepted:7')
are('zset', shard .. 'delayed')
local now, last = now_ms(ARGV[1]), #ARGV - 1
for i = 2, last, 3 do
  expect(ARGV[i + 1] == '0' or ARGV[i + 1] == '1', 'a page')
  expect(ARGV[i + 2] == '' or is_number(ARGV[i + 2]), 'wait')
  if not host_of(ARGV[i]) then error('an entry is damaged') end
end
local answer, taken, pages, recrawls = {}, 0, 0, 0
for i = 2, last, 3 do
  local entry, wait = ARGV[i], ARGV[i + 2]
  if mark_seen(halves_of(entry_id(entry))) then
    answer[#answer + 1], taken = '1', taken + 1
    local number = queue_of(entry)
    if number > PAGE_QUEUES then
      redis.call('HINCRBY', shard .. 'accepted:' .. number, host_of(entry), 1)
      count('accepted' .. number, 1)
    end
    if ARGV[i + 1] == '1' then
      redis.call('HINCRBY', shard .. 'pages', host_of(entry), 1)
      pages = pages + 1
    end
    if wait ~= '' then
      delay_record(bucket_of(now, tonumber(wait)), 'c' .. entry)
      recrawls = recrawls + 1
    end
  else
    answer[#answer + 1] = '0'
  end
end
account_seen()
count('added', taken)
count('done', taken)
count('pages', pages)
count('recrawls', recrawls)
return table.concat(answer)
