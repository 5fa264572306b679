-- Part of host and hosts: the state of a host, as a list.

-- {host, clock, delay, waiting, in flight, pages, blocked until, excluded, queue, budget, parallelism};
-- times in ms; queue, budget and parallelism are '' if they are not set.
local function host_view(host)
  local found = redis.call('HMGET', shard .. 'host:' .. host, 'clock', 'delay', 'waiting', 'tokens',
    'blocked', 'excluded', 'queue', 'budget', 'parallel')
  local pages = redis.call('HGET', shard .. 'pages', host)
  return {host, found[1] or 0, found[2] or 0, found[3] or 0, tokens_in(found[4]), pages or 0,
    found[5] or 0, found[6] or 0, found[7] or '', found[8] or '', found[9] or ''}
end
