-- Prelude of every script: the keys of one shard, and functions that several verbs use.
--
-- KEYS[1]  the shard's hash tag, prefix of every key below
--
--   front:<1..7>             list   waiting URLs: pages by priority (1 to 5), documents (6), media (7)
--   back:<host>:<1..7>       list   URLs of a host that is active
--   host_heap                zset   active host with a free slot -> earliest next contact, ms
--   host:<host>              hash   clock, delay, tokens (in flight), waiting, turn, parked (queue of the
--                                   first URLs of a host that has others in back queues and is not
--                                   active yet), claimed (tokens of leases, if it has a budget), typed
--                                   (turn of the types, if documents or media may be in its back
--                                   queues); set by people: cut, queue, excluded, budget, parallel,
--                                   blocked, keep (never expires)
--   ordered                  set    hosts that people changed or blocked
--   leases:<owner>           hash   token -> "<token> <request id> <entry>"
--   flights:<owner>          hash   token -> host: fetches reported again after a restart
--   visits:<owner>           hash   host -> token: slots taken without a URL of their hosts, see visit.lua
--   unsuspected:<owner>      set    tokens of leases that are not to blame if the owner dies
--   owners                   zset   instance -> last beat, ms; 0: dead, its leases are being taken back
--   instances                hash   instance -> its own report
--   claims                   hash   instance -> id of its last claim
--   forced:<process>         list   ids of its last forced adds; expires after a day
--   delayed                  zset   due times of buckets, ms, as members and scores
--   delayed:<ms>             list   mark .. entry: "r" retry, "c" recrawl, "f" recrawl brought forward;
--                                   "p", "q" recrawl that waits for its turn in a budget, "P", "Q" the
--                                   same, brought forward
--   lifts, lifts:now         hash   id of a URL that is to wait in a better queue -> queue, blank, host;
--                                   :now has those that the sweep under way looks for
--   forwards, forwards:now   hash   id of a URL that is to be recrawled now -> when it changed, unix s;
--                                   later -> ms: recrawls due later than that are to be due now, since
--                                   their budget was changed
--   sweeper                  string instance that sweeps; expires
--   url_seen:<bucket>        set    32 bits of the fingerprints in this bucket
--   bloom:<n>                string bitmap, if the crawl uses Bloom filters
--   dead                     stream entry, reason, at
--   pages                    hash   host -> pages crawled
--   accepted:<6..7>          hash   host -> documents or media that were added, for their budgets
--   found, inbound           hash   host -> URLs found, links from other domains
--   linked:<n>               string counters of the links to URLs, see count_links.lua
--   rates                    hash   host -> number of pages that are visited again within a budget, sum of
--                                   their rates of changes and of the logarithms, three doubles
--   stats                    hash   counters; last token, time and turn; typed (turn of the types, if
--                                   documents or media ever waited); turns in the budget of recrawls; run
--                                   id, epoch, pause; the difference between the shard's time and the
--                                   server's clock

local shard = KEYS[1] .. ':'
local STATS = shard .. 'stats'
local HEAP = shard .. 'host_heap'
local OWNERS = shard .. 'owners'
-- Queues of pages, by priority; those that follow are of documents and of media, one each.
local PAGE_QUEUES, QUEUES = 5, 7
-- What stays in the place of a URL that was moved out of the middle of a long list. It is no URL, and is
-- dropped when its turn comes. stats has the number of those in each front queue, as gaps<number>.
local GAP = '-'
-- Without its clock an idle host could be contacted too soon, so the clock is kept for an hour more.
local HOST_TTL_MS = 3600000
-- Delay of a host whose own one is not known.
local UNKNOWN_DELAY_MS = 1000
-- Between two notes of the time, which show after a restart how much was lost.
local SEEN_MS = 500
-- More than the claims that a server may lose in a restart.
local LOST_TOKENS = 1000000

-- Redis undoes nothing when a script fails, and a script that never ends stops the server. So every verb
-- checks its arguments before its first write. Numbers are finite.
local function expect(condition, what)
  if not condition then error('wrong arguments: ' .. what) end
end

local function is_number(value)
  local number = tonumber(value)
  return number and math.abs(number) < 9007199254740992 and number
end

-- Check the number of arguments, and that some of them are numbers that are not negative.
local function numbers(least, ...)
  expect(#ARGV >= least, #ARGV .. ' of ' .. least)
  for _, place in ipairs({...}) do
    expect((is_number(ARGV[place]) or -1) >= 0, 'number ' .. place .. ' is no number')
  end
end

-- Check numbers that may be left out.
local function optional(...)
  for _, place in ipairs({...}) do
    expect(ARGV[place] == '' or is_number(ARGV[place]), 'number ' .. place .. ' is no number')
  end
end

-- Check that keys have the type that they should have, if they exist: what a script takes out of one key
-- must not be lost since another one cannot take it.
local function are(kind, ...)
  for _, key in ipairs({...}) do
    local found = redis.call('TYPE', key).ok
    expect(found == kind or found == 'none', key .. ' is a ' .. found)
  end
end

local function fronts_are_lists()
  for number = 1, 7 do are('list', shard .. 'front:' .. number) end
end

-- Check that the arguments from `first` on are groups of so many, with numbers at some places of each.
local function groups(first, size, ...)
  expect((#ARGV + 1 - first) % size == 0, 'they are no groups of ' .. size)
  local places = {...}
  for at = first, #ARGV, size do
    for _, place in ipairs(places) do
      expect(is_number(ARGV[at + place]), 'number ' .. at + place .. ' is no number')
    end
  end
end

-- Format a whole number. Lua and redis.call format it as any number, which takes twice as long.
local function digits(number) return string.format('%d', number) end

-- The time of the shard is the server's clock plus `skew_ms`. It does not follow leaps of the clock: a
-- leap ahead would let every host be contacted at once, and a leap back would stop the crawl until the
-- clock has caught up. While an instance lives, it beats, so that calls are never this far apart.
local LEAP_MS = 10000
-- Smaller steps back are usual corrections of clocks; the shard's time stands still meanwhile.
local LEAP_BACK_MS = 1000
-- Skew in this call.
local skew_ms = 0

local function set_skew(skew)
  skew_ms = skew
  redis.call('HSET', STATS, 'skew_ms', digits(skew))
end

-- Every instance logs a leap that the shard did not follow, see beat.lua.
local function note_leap(by)
  redis.call('HINCRBY', STATS, 'leaps', 1)
  redis.call('HSET', STATS, 'leapt_ms', digits(by))
end

-- Handle a clock that is `by` ms ahead of the expected time, or behind it. Returns the time.
local function leap(by, last)
  -- Nobody works on the crawl, so time has passed.
  if by > 0 and redis.call('EXISTS', OWNERS) == 0 then return last + by end
  set_skew(skew_ms - by)
  if by < 0 then
    note_leap(by)
    return last
  end
  -- Did time pass while all instances were dead? Nothing is claimed until beat.lua has decided.
  redis.call('HINCRBY', STATS, 'leap_ms', digits(by))
  redis.call('HSET', STATS, 'leap_at', digits(last))
  return last + 1
end

-- Return the shard's time. `given` is for tests, 0 = now; with a given time no clock leaps.
local function now_ms(given)
  -- A removal first: at maxmemory Redis lets a script write only after one, and scripts that free
  -- memory must still run then.
  redis.call('HDEL', STATS, '')
  local now = tonumber(given)
  local last, skew, is_given = unpack(redis.call('HMGET', STATS, 'now_ms', 'skew_ms', 'is_given'))
  last, skew_ms = tonumber(last or 0), tonumber(skew or 0)
  if now == 0 then
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000) + skew_ms
    local by = now - last
    if (by > LEAP_MS or by < -LEAP_BACK_MS) and last > 0 and not is_given then now = leap(by, last) end
  elseif not is_given then
    redis.call('HSET', STATS, 'is_given', 1)
  end
  if last >= now then return last end
  redis.call('HSET', STATS, 'now_ms', digits(now))
  return now
end

-- Let the state of a host expire an hour after its next contact, unless people changed the host.
local function expire(key, clock)
  redis.call('PEXPIREAT', key, digits(clock - skew_ms + HOST_TTL_MS))
end

local function count(name, by)
  if by ~= 0 then redis.call('HINCRBY', STATS, name, digits(by)) end
end

-- Return the due time of a URL that is delayed. Buckets are coarser the later they are due. Times are
-- rounded up, so that no URL comes too early.
local function bucket_of(now, wait)
  local grain = wait < 3600000 and 1000 or wait < 86400000 and 60000 or 3600000
  return string.format('%.0f', math.ceil((now + wait) / grain) * grain)
end

-- Append a record to a bucket of the delay queue.
local function delay_record(due, record)
  if redis.call('RPUSH', shard .. 'delayed:' .. due, record) == 1 then
    redis.call('ZADD', shard .. 'delayed', due, due)
  end
end

local function entry_id(entry) return string.sub(entry, 6, 13) end

-- Note that documents or media are in the back queues of a host, which so gets turns of types: see
-- pop_back in claim.lua.
local function note_typed(host)
  redis.call('HSETNX', shard .. 'host:' .. host, 'typed', 0)
  redis.call('HSETNX', STATS, 'typed', 0)
end

-- Split an id for URL-seen: 32 bits unsigned, 32 bits signed.
local function halves_of(id) return struct.unpack('>I4i4', id) end

-- 0 for a page, 1 for a sitemap.
local function kind_of(entry) return math.floor(string.byte(entry) / 4) % 4 end

local function queue_of(entry) return math.floor(string.byte(entry, 3) / 32) end

-- Return the back queue of a URL. People may set one for all pages of a host (`ordered`).
local function back_queue(number, ordered)
  return number <= PAGE_QUEUES and tonumber(ordered) or number
end

-- Return the politeness group of an entry, or nil for bytes that are no entry. The URL begins at byte
-- 26, and at byte 22 in entries of version 1, which earlier releases made; see entry.py.
local function host_of(entry)
  if #entry < 23 then return nil end
  local version, _, queue, _, skipped = string.byte(entry, 1, 5)
  local first = (version < 32 and 22 or 26) + skipped
  local slash = string.find(entry, '/', first, true)
  if not slash or slash == first or queue < 32 then return nil end
  local host = string.sub(entry, first, slash - 1)
  -- The tail follows a newline.
  return not string.find(host, '\n', 1, true) and host or nil
end

-- Return the number of URLs that have to leave a front queue until those are gone that were there when
-- the host was purged; `cut` is of the host.
local function purged_up_to(cut, number)
  -- One that an earlier release made has the queues of pages only.
  return tonumber(string.match(cut, string.rep('%d+ ', number - 1) .. '(%d+)') or 0)
end

local function tokens_in(tokens)
  if not tokens or tokens == '' then return 0 end
  local _, number = string.gsub(tokens, '%d+', '')
  return number
end

local function bury_entry(entry, reason, now, keep)
  local key = shard .. 'dead'
  redis.call('XADD', key, '*', 'entry', entry, 'reason', reason, 'at', now)
  count('dead', 1)
  count('trimmed', redis.call('XTRIM', key, 'MAXLEN', '~', keep))
end

-- Return the entry of a lease.
local function entry_of(lease)
  local after_token = string.find(lease, ' ', 1, true) + 1
  return string.sub(lease, string.find(lease, ' ', after_token, true) + 1)
end

-- Remove a lease and return its entry, or nil if it is not held: stale tokens change nothing.
local function take_lease(owner, token)
  local key = shard .. 'leases:' .. owner
  local lease = redis.call('HGET', key, token)
  if not lease then return nil end
  redis.call('HDEL', key, token)
  return entry_of(lease)
end

-- End a fetch: free the slot, set the clock, and put the host back on the heap if URLs wait.
-- This does nothing if the token is not in flight, so that it may be repeated. `delay` is the host's
-- usual delay, or 0 if this fetch does not show it.
local function free_slot(host, token, next_contact, delay)
  local key = shard .. 'host:' .. host
  local tokens, clock, waiting, keep = unpack(redis.call('HMGET', key, 'tokens', 'clock', 'waiting',
    'keep'))
  local left, found = '', tokens == token
  if not found then
    for held in string.gmatch(tokens or '', '%d+') do
      if held == token then found = true else left = left == '' and held or left .. ' ' .. held end
    end
    if not found then return end
  end
  clock = math.max(next_contact, tonumber(clock or 0))
  if delay > 0 then
    redis.call('HSET', key, 'tokens', left, 'clock', digits(clock), 'delay', digits(delay))
  else
    redis.call('HSET', key, 'tokens', left, 'clock', digits(clock))
  end
  if tonumber(waiting or 0) > 0 then
    redis.call('ZADD', HEAP, digits(clock), host)
  elseif left == '' and not keep then
    expire(key, clock)
  end
end

-- End the visits of an owner, but those whose tokens are named. Their hosts wait for their own delays.
local function end_visits(owner, now, unknown_delay, named)
  local key = shard .. 'visits:' .. owner
  local visits = redis.call('HGETALL', key)
  for i = 1, #visits, 2 do
    local host, token = visits[i], visits[i + 1]
    if not named[token] then
      local delay = tonumber(redis.call('HGET', shard .. 'host:' .. host, 'delay') or unknown_delay)
      redis.call('HDEL', key, host)
      free_slot(host, token, now + delay, 0)
    end
  end
end

-- Remove an instance that holds no lease. A fetch that it reported again after a restart may have no
-- lease, since its claim was lost: without this its host's slot would stay taken forever.
local function forget_owner(owner, now, delay)
  local flights = redis.call('HGETALL', shard .. 'flights:' .. owner)
  for i = 1, #flights, 2 do free_slot(flights[i + 1], flights[i], now + delay, delay) end
  end_visits(owner, now, delay, {})
  redis.call('UNLINK', shard .. 'flights:' .. owner)
  redis.call('UNLINK', shard .. 'unsuspected:' .. owner)
  redis.call('ZREM', OWNERS, owner)
  redis.call('HDEL', shard .. 'claims', owner)
  redis.call('HDEL', shard .. 'instances', owner)
end

-- Return whether an instance was declared dead, or never registered. It must not come back while some
-- of its leases are with others.
local function is_dead(owner)
  return tonumber(redis.call('ZSCORE', OWNERS, owner) or 0) == 0
end

-- Put an entry back at the head of its queue, as if it had never been popped: a purge counts pops.
local function wait_again(entry)
  redis.call('LPUSH', shard .. 'front:' .. queue_of(entry), entry)
  count('out' .. queue_of(entry), -1)
end

-- Drop all URLs in a host's back queues.
local function drop_waiting(host, why)
  local key = shard .. 'host:' .. host
  local waiting = tonumber(redis.call('HGET', key, 'waiting') or 0)
  for number = 1, QUEUES do redis.call('UNLINK', shard .. 'back:' .. host .. ':' .. number) end
  redis.call('HDEL', key, 'waiting', 'parked', 'typed')
  redis.call('ZREM', HEAP, host)
  local tokens, clock, keep = unpack(redis.call('HMGET', key, 'tokens', 'clock', 'keep'))
  if tokens_in(tokens) == 0 and not keep then
    expire(key, tonumber(clock or 0))
  end
  count('back', -waiting)
  count('dropped_' .. why, waiting)
end

-- A new run id means that the server restarted or failed over and may have lost its last writes: a new
-- epoch begins, and claims wait until every instance has reported what it has in flight. No run id
-- means that the crawl is new here, or that all of it was lost: the first epoch is the time, so that
-- an instance that knew another epoch notices, and tokens begin with the time, so that none is used
-- twice.
local function restarted()
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local known, seen = unpack(redis.call('HMGET', STATS, 'run_id', 'seen_ms'))
  return known ~= run and run, known, tonumber(seen or 0)
end

local function epoch(now, grace)
  local run, known, seen = restarted()
  if run then
    -- Writes after this time are lost.
    redis.call('HSET', STATS, 'run_id', run, 'survived_ms', digits(seen))
    if known then
      -- Not by one: if the server dies again and loses this, the next epoch must still be a new one.
      redis.call('HINCRBY', STATS, 'epoch', 1 + tonumber(string.sub(run, 1, 3), 16))
      -- Beyond the tokens of all lost claims: instances may still hold those leases.
      redis.call('HSET', STATS, 'trusted_from', redis.call('HINCRBY', STATS, 'token', LOST_TOKENS))
      if redis.call('EXISTS', OWNERS) == 1 then
        redis.call('HSET', STATS, 'claims_from', digits(now + grace))
      end
    else
      redis.call('HSET', STATS, 'epoch', digits(now), 'token', digits(now))
    end
  end
  -- Losses are reported in seconds.
  if now >= seen + SEEN_MS then redis.call('HSET', STATS, 'seen_ms', digits(now)) end
  return tonumber(redis.call('HGET', STATS, 'epoch') or 0)
end
