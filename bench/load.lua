-- For wrk: requests from a file, each behind a line with its length; a summary in JSON.
local requests = {}
local position = 0

function init(args)
  local file = assert(io.open(args[1], "rb"))
  while true do
    local length = file:read("*n")
    if length == nil then break end
    file:read(1)
    requests[#requests + 1] = file:read(length)
  end
  file:close()
end

function request()
  position = position % #requests + 1
  return requests[position]
end

function done(summary, latency, _)
  local e = summary.errors
  io.write(string.format(
    '{"requests":%d,"duration_us":%d,"errors":%d,"at_us":%s}',
    summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
    string.format('[%d,%d,%d]', latency:percentile(50), latency:percentile(99), latency:percentile(99.9))))
end
