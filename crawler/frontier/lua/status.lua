-- What is cheap to know of one URL: O(leases), whatever the number of URLs.
--
-- KEYS[1]  shard
-- ARGV[1]  entry id, eight bytes
-- ARGV[2]  form of URL-seen
-- Returns  {known, owner of its lease or '', entry of the lease or ''}

for _, owner in ipairs(redis.call('ZRANGE', OWNERS, 0, -1)) do
  for _, lease in ipairs(redis.call('HVALS', shard .. 'leases:' .. owner)) do
    local entry = entry_of(lease)
    if entry_id(entry) == ARGV[1] then return {1, owner, entry} end
  end
end
return {is_seen(ARGV[1]) and 1 or 0, '', ''}
