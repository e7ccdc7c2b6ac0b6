"""Scripts that Redis runs, each atomically and by its own clock.

They are sent with every call (EVAL): a server that was restarted has forgotten them, and next to a
batch they are small. All keys of a call have the same prefix; the last one is that of the space.
"""

# ``values.replaces``. Numbers are compared as texts: Lua's are floats, and too short for them.
# One argument has for each key: line, number, age, TTL, and the rest of the document after its
# length. With an argument for each of these, or for each key, the client takes longer to encode it.
# The other argument is when the call was sent, by this server's clock as the client knows it, or 0:
# a server that was suspended finds calls that have waited, and values that have aged meanwhile.
PUT = """
local space, time = KEYS[#KEYS], redis.call('TIME')
local now, sent = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[2])
local late = sent > 0 and math.max(now - sent, 0) or 0
local written, members, start = {}, {}, 1
for i = 1, #KEYS - 1 do
  local line, number, age, ttl, length, rest =
    string.match(ARGV[1], '^(%a*) (%d+) (%d+) (%d+) (%d+) ()', start)
  start = rest + length
  local at, left = now - late - age, ttl - late - age
  local newer, old = left > 0, redis.call('GET', KEYS[i])
  if newer and old then
    local line0, number0, at0 =
      string.match(old, '^{"line":"(%a*)","number":(%d+),"at_ms":(%d+),')
    if line0 and line ~= '' and line == line0 then
      newer = #number > #number0 or (#number == #number0 and number >= number0)
    elseif line0 then
      newer = at >= tonumber(at0)
    end
  end
  if newer then
    local value = '{"line":"' .. line .. '","number":' .. number
      .. string.format(',"at_ms":%.0f,"ttl_ms":', at) .. ttl
      .. string.sub(ARGV[1], rest, start - 1)
    redis.call('SET', KEYS[i], value, 'PX', string.format('%.0f', left))
    written[#written + 1] = value
    members[#members + 1] = string.sub(KEYS[i], #space + 2)
  end
end
if #written > 0 then
  redis.call('SADD', space, unpack(members))
  redis.call('PUBLISH', space, '[' .. table.concat(written, ',') .. ']')
end
return {#written, now}
"""

READ = """
local time, space = redis.call('TIME'), table.remove(KEYS)
return {time[1] * 1000 + math.floor(time[2] / 1000), redis.call('MGET', unpack(KEYS))}
"""

# Checked again here, for it may have been written since it was found missing.
FORGET = """
local space = table.remove(KEYS)
for _, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 0 then
    redis.call('SREM', space, string.sub(key, #space + 2))
  end
end
return 0
"""

REMOVE = """
local space = table.remove(KEYS)
for _, key in ipairs(KEYS) do
  redis.call('DEL', key)
  redis.call('SREM', space, string.sub(key, #space + 2))
end
return 0
"""
