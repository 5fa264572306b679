-- Forget that a URL was seen, so that it may be added again. What waits stays.
--
-- KEYS[1]  shard
-- ARGV[1]  entry id, eight bytes
-- ARGV[2]  form of URL-seen; Bloom filters cannot forget
-- Returns  'forgotten', 'unseen', or 'leased' for one that is being fetched: nothing was changed

if leased(ARGV[1]) then return 'leased' end
return forget_seen(halves_of(ARGV[1])) and 'forgotten' or 'unseen'
