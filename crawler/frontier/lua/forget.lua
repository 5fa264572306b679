-- Forget that a URL was seen, so that it may be added again. An entry that waits stays.
--
-- KEYS[1]  shard
-- ARGV[1]  entry id, eight bytes
-- ARGV[2]  form of URL-seen; Bloom filters cannot forget
-- Returns  'forgotten', 'unseen', or 'leased' if the URL is being fetched: nothing is changed then

numbers(2)
if leased(ARGV[1]) then return 'leased' end
return forget_seen(halves_of(ARGV[1])) and 'forgotten' or 'unseen'
