-- Forget that a URL was seen, so that it may be added again. What waits or is leased stays.
--
-- KEYS[1]  shard
-- ARGV[1]  entry id, eight bytes
-- ARGV[2]  form of URL-seen; Bloom filters cannot forget
-- Returns  1 if it was known and is forgotten, else 0

return forget_seen(ARGV[1]) and 1 or 0
