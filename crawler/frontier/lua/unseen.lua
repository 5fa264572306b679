-- Tell which URLs were never seen. Changes nothing.
--
-- KEYS[1]  shard
-- ARGV[1]  entry ids, eight bytes each, at most 1,000
-- ARGV[2]  form of URL-seen, see seen_intset.lua and seen_bloom.lua
-- Returns  a string with a character for each id: '1' unseen, '0' known

numbers(2)
local answer = {}
for at = 1, #ARGV[1], 8 do
  local high, low = struct.unpack('>I4i4', ARGV[1], at)
  answer[#answer + 1] = is_seen(high, low) and '0' or '1'
end
return table.concat(answer)
