-- Put what was offered to the crawl, and is no URL of it, into the dead-letter queue.
--
-- KEYS[1]  shard
-- ARGV[1]  now, ms (0 = the shard's time)
-- ARGV[2]  dead letters kept; older ones are trimmed and counted
-- ARGV[3]  reason
-- ARGV[4…] bytes of each letter, which are no entry: it cannot be requeued
-- Returns  number of letters

numbers(3, 1, 2)
are('stream', shard .. 'dead')
local now = now_ms(ARGV[1])
for i = 4, #ARGV do bury_entry(ARGV[i], ARGV[3], now, ARGV[2]) end
return #ARGV - 3
