-- What wrk sends, from the arguments after `--`, and what it measured, as one line of JSON.
--
--   method=<name>
--   body=<text>
--   header=<name>: <value>   on every request; `{}` in a value stands for something new in every request:
--   values=<file>            the file's lines in turn; without a file, 64 new digits every time

local varied_name, varied_value
local values = {}

local function read_arguments(arguments)
  for _, argument in ipairs(arguments) do
    local name, value = argument:match("^(%w+)=(.*)$")
    if name == "method" then
      wrk.method = value
    elseif name == "body" then
      if value ~= "" then wrk.body = value end
    elseif name == "values" then
      for line in io.lines(value) do values[#values + 1] = line end
    elseif name == "header" then
      local header, text = value:match("^([^:]+): (.*)$")
      wrk.headers[header] = text
      if text:find("{}", 1, true) then varied_name, varied_value = header, text end
    end
  end
end

local function with(value)
  wrk.headers[varied_name] = varied_value:gsub("{}", value)
  return wrk.format()
end

-- Prepared in advance, so that taking turns costs wrk nothing.
local function in_turn()
  local requests, last = {}, 0
  for index, value in ipairs(values) do requests[index] = with(value) end
  return function()
    last = last % #requests + 1
    return requests[last]
  end
end

local function ever_new()
  local count, started = 0, os.time()
  local placeholder = ("x"):rep(64)
  local request = with(placeholder)
  local from, to = request:find(placeholder, 1, true)
  local before, after = request:sub(1, from - 1), request:sub(to + 1)
  return function()
    count = count + 1
    return before .. string.format("%032d%032d", started, count) .. after
  end
end

function init(arguments)
  read_arguments(arguments)
  if varied_name then request = #values > 0 and in_turn() or ever_new() end
end

function done(summary, latency)
  io.write(string.format(
    '\n{"requests":%d,"durationUs":%d,"refused":%d,"lost":%d,"p50Us":%d,"p99Us":%d}\n',
    summary.requests, summary.duration, summary.errors.status,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
    latency:percentile(50), latency:percentile(99)
  ))
end
