-- Read the states of several hosts.
--
-- KEYS[1]  shard
-- ARGV[1…] hosts, at most 1,000
-- Returns  a list for each host, see host_view.lua

local answer = {}
for i, host in ipairs(ARGV) do answer[i] = host_view(host) end
return answer
