// The flat script: what the server does for a call of get_data, over REST and both eras of MCP, written by hand in one
// function: the same checks, hash, look-up, limit, log line and last use, and the same bytes. What the server is slower
// than this is the price of its structure. The keys of the database whose path is the first argument are in memory from
// the start, as those in use are in the server's. What is refused gets its status and nothing else: no load asks for it.

import { Database } from 'bun:sqlite';
import { SERVER_NAME, SERVER_VERSION } from '../../../../src/ground/server-info.ts';
import { redactKeys } from '../../../../src/watch/redact.ts';
import { createRequestBatcher } from '../../../../src/web/request-batcher.ts';
import { announce } from './announce.ts';

interface Key {
  readonly id: string;
  readonly owner: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly expiresAtMs: number | null;
  usedAtMs: number;
  calls: number;
  windowEndsAtMs: number;
}

/** As ourEnv in ours.ts. */
const LIMIT = 1_000_000_000;
const WINDOW_MS = 3_600_000;
const FRESH_MS = 975;
const POLL_MS = 250;
const USES_MS = 3000;
const LOG_MS = 50;
const LOG_CHARS = 64 * 1024;
const BODY_BYTES_MAX = 1024 * 1024;
const KEY_SHAPE = /^[a-z0-9]{2,12}_(?:live|test)_[0-9a-f]{64}$/;
const BEARER = /^Bearer (?=.)/i;
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const OLD_VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
const VERSION = '2026-07-28';
const VERSION_META = 'io.modelcontextprotocol/protocolVersion';
const CAPABILITIES_META = 'io.modelcontextprotocol/clientCapabilities';
const ACCEPTED = 'application/json, text/event-stream';
const ROWS = [
  { id: 'sample-1', title: 'First sample row', amount: 10 },
  { id: 'sample-2', title: 'Second sample row', amount: 20 },
];
const SERVER_META = JSON.stringify({
  'io.modelcontextprotocol/serverInfo': { name: SERVER_NAME, version: SERVER_VERSION },
});
const MODERN_MEMBERS = `"resultType":"complete","_meta":${SERVER_META},`;

const headersOut = new Headers({
  'Content-Type': 'application/json',
  'Cache-Control': 'no-store',
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'RateLimit-Policy': `"key";q=${LIMIT};w=${WINDOW_MS / 1000}`,
});
const utf8 = new TextEncoder();
const endOfTurn = createRequestBatcher();
const instance = crypto.getRandomValues(new Uint8Array(6)).toHex();
const hosts = new Set<string>();
const used = new Set<Key>();
let freshAsOfMs = performance.now();
let requests = 0;
let inFlight = 0;
let log = '';
let stampMs = 0;
let stamp = '';

const database = new Database(process.argv[2]);
database.run('PRAGMA busy_timeout = 5000');
const keys = new Map<string, Key>();
const FIND = 'SELECT key_hash, id, user_id, name, scopes, expires_at_ms FROM api_keys WHERE active = 1';
for (const row of database.query<Record<string, string>, []>(FIND).iterate()) {
  keys.set(String(row.key_hash), {
    id: String(row.id),
    owner: String(row.user_id),
    name: String(row.name),
    scopes: JSON.parse(String(row.scopes)),
    expiresAtMs: row.expires_at_ms === null ? null : Number(row.expires_at_ms),
    usedAtMs: 0,
    calls: 0,
    windowEndsAtMs: 0,
  });
}

const changes = database.query<{ key_hash: string; seq: number }, [number]>('SELECT * FROM changes WHERE seq > ?');
let seq = 0;
setInterval(() => {
  const askedAtMs = performance.now();
  for (const change of changes.all(seq)) {
    seq = change.seq;
    keys.delete(change.key_hash);
  }
  freshAsOfMs = askedAtMs;
}, POLL_MS);

const recordUse = database.prepare(`INSERT INTO key_uses (row, last_used_at_ms) SELECT row, ? FROM api_keys WHERE id = ?
ON CONFLICT (row) DO UPDATE SET last_used_at_ms = excluded.last_used_at_ms`);
setInterval(() => {
  for (const key of used) recordUse.run(key.usedAtMs, key.id);
  used.clear();
}, USES_MS);

function writeLog(): void {
  if (log !== '') process.stdout.write(utf8.encode(redactKeys(log)));
  log = '';
}
setInterval(writeLog, LOG_MS);

const refused = (status: number) => new Response(null, { status });
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

async function response(request: Request): Promise<Response> {
  requests += 1;
  const requestId = `${instance}-${requests.toString(36)}`;
  const { url, headers } = request;
  const path = url.slice(url.indexOf('/', 8));
  const overMcp = path === '/mcp';
  const host = headers.get('host') ?? '';
  if (!hosts.has(host)) {
    const { hostname } = new URL(`http://${host}`);
    if (!/^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname)) return refused(403);
    hosts.add(host);
  }
  if (headers.get('origin') !== null) return refused(403);
  if (!overMcp && path !== '/tools/get_data') return refused(404);
  if (request.method !== 'POST') return refused(405);
  const length = headers.get('content-length');
  if (headers.get('content-type') !== 'application/json') return refused(415);
  if (length === null || Number(length) > BODY_BYTES_MAX) return refused(413);

  let body: unknown;
  try {
    body = await request.json();
  } catch {
    return refused(400);
  }
  if (!isObject(body)) return refused(400);
  let input = body;
  let meta: unknown = body._meta;
  let modern = false;
  if (overMcp) {
    const { jsonrpc, id, method, params } = body;
    if (jsonrpc !== '2.0' || typeof method !== 'string' || !isObject(params)) return refused(400);
    if (typeof id !== 'string' && !Number.isSafeInteger(id)) return refused(400);
    meta = params._meta;
    if (meta !== undefined && !isObject(meta)) return refused(400);
    const version = headers.get('mcp-protocol-version');
    const claimed = meta?.[VERSION_META];
    modern = claimed !== undefined;
    if (modern) {
      if (claimed !== VERSION || version !== VERSION || !isObject(meta?.[CAPABILITIES_META])) return refused(400);
      if (headers.get('mcp-method') !== method || headers.get('mcp-name') !== params.name) return refused(400);
    } else if (version !== null && !OLD_VERSIONS.includes(version)) return refused(400);
    if (method !== 'tools/call' || params.name !== 'get_data') return refused(404);
    const { arguments: given = {} } = params;
    if (!isObject(given)) return refused(400);
    input = given;
    if (meta?.progressToken !== undefined || headers.get('accept') !== ACCEPTED) return refused(406);
  }

  const authorization = headers.get('authorization');
  const bearer = authorization !== null && BEARER.test(authorization) ? authorization.slice(7) : null;
  const metaKey = isObject(meta) ? meta.api_key : null;
  const token = headers.get('x-api-key') || bearer || metaKey;
  const traceparent = headers.get('traceparent');
  const traceId = traceparent === null ? undefined : TRACEPARENT.exec(traceparent)?.[1];
  if (typeof token !== 'string' || !KEY_SHAPE.test(token)) return refused(401);
  const monotonicMs = performance.now();
  if (monotonicMs - freshAsOfMs > FRESH_MS) return refused(503);
  const key = keys.get(Bun.SHA256.hash(token, 'hex'));
  const nowMs = Date.now();
  if (key === undefined || (key.expiresAtMs !== null && key.expiresAtMs < nowMs)) return refused(401);
  key.usedAtMs = nowMs;
  used.add(key);
  if (nowMs !== stampMs) {
    stampMs = nowMs;
    stamp = new Date(nowMs).toISOString();
  }
  const { id, owner, name, scopes } = key;
  const trace = traceId === undefined ? '' : `"traceId":"${traceId}",`;
  log += `{"time":"${stamp}","level":"info","event":"API key authentication successful","requestId":"${requestId}",${trace}"keyId":"${id}","userId":${JSON.stringify(owner)}}\n`;
  if (log.length > LOG_CHARS) writeLog();
  if (key.windowEndsAtMs <= monotonicMs) {
    key.windowEndsAtMs = monotonicMs + WINDOW_MS;
    key.calls = 0;
  }
  if (key.calls >= LIMIT) return refused(429);
  key.calls += 1;
  const resetS = Math.min(WINDOW_MS / 1000, Math.ceil((key.windowEndsAtMs - monotonicMs) / 1000));
  if (!scopes.includes('read')) return refused(403);
  for (const field of Object.keys(input)) if (field !== '_meta') return refused(400);

  const json = JSON.stringify({ owner, key: { id, name, scopes }, data: ROWS });
  const text = overMcp
    ? `{"jsonrpc":"2.0","id":${JSON.stringify(body.id)},"result":{${modern ? MODERN_MEMBERS : ''}"content":[{"type":"text","text":${JSON.stringify(json)}}],"structuredContent":${json}}}`
    : json;
  headersOut.set('RateLimit', `"key";r=${LIMIT - key.calls};t=${resetS}`);
  const response = new Response(text, { headers: headersOut });
  await endOfTurn();
  return performance.now() - freshAsOfMs > FRESH_MS ? refused(503) : response;
}

announce(
  Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    development: false,
    async fetch(request) {
      inFlight += 1;
      try {
        return await response(request);
      } finally {
        inFlight -= 1;
      }
    },
  }),
);

process.on('SIGTERM', () => {
  writeLog();
  process.exit(inFlight === 0 ? 0 : 1);
});
