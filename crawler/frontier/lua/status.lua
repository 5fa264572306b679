-- What is cheap to know of one URL: O(owners), whatever the number of URLs.
--
-- KEYS[1]  shard
-- ARGV[1]  entry id, eight bytes
-- ARGV[2]  form of URL-seen
-- Returns  {known, owner of its lease or '', entry of the lease or ''}

for _, owner in ipairs(redis.call('ZRANGE', OWNERS, 0, -1)) do
  local lease = redis.call('HGET', shard .. 'leases:' .. owner, ARGV[1])
  if lease then return {1, owner, string.sub(lease, (string.match(lease, '^%d+ %S+ ()')))} end
end
return {is_seen(ARGV[1]) and 1 or 0, '', ''}
