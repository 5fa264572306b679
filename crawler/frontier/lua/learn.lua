-- Add to what the fleet knows of the changes of hosts' pages.
--
-- KEYS[1]  shard
-- ARGV[1…] host, and what to add to its number of pages, to the sum of their rates of changes, and to the
--          sum of the rates' logarithms: four arguments for each host
-- Returns  the three sums of each host, as texts: Redis would cut off the fractions of numbers

groups(1, 4, 1)
for i = 3, #ARGV, 4 do expect(is_number(ARGV[i]) and is_number(ARGV[i + 1]), 'sums') end
local RATES, totals = shard .. 'rates', {}
for i = 1, #ARGV, 4 do
  local sums, known = {0, 0, 0}, redis.call('HGET', RATES, ARGV[i])
  if known then sums = {struct.unpack('>ddd', known)} end
  for j = 1, 3 do
    sums[j] = sums[j] + tonumber(ARGV[i + j])
    totals[#totals + 1] = string.format('%.17g', sums[j])
  end
  redis.call('HSET', RATES, ARGV[i], struct.pack('>ddd', sums[1], sums[2], sums[3]))
end
return totals
