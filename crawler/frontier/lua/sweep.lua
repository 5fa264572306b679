-- Begin or end a sweep: what is wanted until now is looked for, and what is wanted later is not.
--
-- KEYS[1]  shard
-- ARGV[1]  '1' at the end of a sweep: what was not found is forgotten
-- Returns  {number of URLs to lift, number of recrawls to bring forward}
--
-- A sweep that its instance did not end begins anew with the same URLs.

numbers(1)
for _, name in ipairs({'lifts', 'forwards'}) do
  local key = shard .. name
  if ARGV[1] == '1' then
    redis.call('UNLINK', key .. ':now')
  elseif redis.call('EXISTS', key .. ':now') == 0 and redis.call('EXISTS', key) == 1 then
    redis.call('RENAME', key, key .. ':now')
  end
end
return {redis.call('HLEN', shard .. 'lifts:now'), redis.call('HLEN', shard .. 'forwards:now')}
