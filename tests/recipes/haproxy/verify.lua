-- Asks the key server whether the key of a request is good: `http-request lua.verify <url>`. If it is, the service gets
-- who is behind it, and txn.verified is true; if not, the client gets what the key server says.

local TIMEOUT_MS = 5000 -- HAProxy asks four times, then the client gets 504
local ASKED_WITH = { "x-api-key", "authorization", "x-required-scope", "x-request-id", "traceparent", "tracestate",
  "user-agent" }
local IDENTITY = { "x-key-id", "x-key-owner", "x-key-name", "x-key-scopes", "x-key-expires",
  "x-key-metadata", "x-key-parent" }
local PASSED_BACK = { "content-type", "www-authenticate", "retry-after", "ratelimit", "ratelimit-policy" }
local LEFT = { ["ratelimit"] = "txn.ratelimit", ["ratelimit-policy"] = "txn.ratelimit_policy" }

-- HAProxy counts the values of a header from 0, Lua from 1.
local function listed(values)
  local list = {}
  for at = 0, #values do list[#list + 1] = values[at] end
  return list
end

local function question(txn)
  local sent = txn.http:req_get_headers()
  local headers = {
    ["x-forwarded-for"] = { txn.f:src() },
    ["x-forwarded-uri"] = { txn.sf:path() }, -- for the access log of the key server
    ["x-forwarded-proto"] = { txn.f:ssl_fc() == 1 and "https" or "http" },
  }
  for _, name in ipairs(ASKED_WITH) do
    -- In one line, as the key server reads several: HAProxy 2.6 ends when it is to send more lines than it takes.
    if sent[name] then headers[name] = { table.concat(listed(sent[name]), ", ") } end
  end
  return headers
end

local function refuse(txn, response)
  local headers = {}
  for _, name in ipairs(PASSED_BACK) do
    local values = response.headers and response.headers[name]
    if values then headers[name] = listed(values) end
  end
  local is_answer = response.status and response.status >= 400
  txn:done(txn:reply({ status = is_answer and response.status or 503, headers = headers, body = response.body or "" }))
end

core.register_action("verify", { "http-req" }, function(txn, url)
  local response = core.httpclient():get({ url = url, headers = question(txn), timeout = TIMEOUT_MS })
  local is_whole = true
  for _, name in ipairs(IDENTITY) do
    local values = response.headers and response.headers[name]
    local value = values and values[0] or ""
    txn.http:req_set_header(name, value)
    -- What has no room left in the buffer is silently not set, and it is the client whose headers fill that.
    if txn.f:req_fhdr(name) ~= value then is_whole = false end
  end
  for name, variable in pairs(LEFT) do
    local values = response.headers and response.headers[name]
    if values then txn:set_var(variable, values[0]) end
  end
  if response.status ~= 200 then refuse(txn, response) end
  if not is_whole then txn:done(txn:reply({ status = 431 })) end
  txn:set_var("txn.verified", true)
end, 1)
