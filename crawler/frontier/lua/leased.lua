-- Part of status and forget: find the lease of a URL. O(leases), whatever the number of URLs.

-- Returns the owner and the entry, or nil.
local function leased(id)
  for _, owner in ipairs(redis.call('ZRANGE', OWNERS, 0, -1)) do
    for _, lease in ipairs(redis.call('HVALS', shard .. 'leases:' .. owner)) do
      local entry = entry_of(lease)
      if entry_id(entry) == id then return owner, entry end
    end
  end
end
