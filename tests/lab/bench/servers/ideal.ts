// The ideal script: all that a call with a key is promised, in one file for this one call. It reads the body, hashes the
// key, finds its record in a Map, checks state, end and scope, counts the call in the key's window and day, encodes the
// output and what is left of the limit, writes a line of the log, and lets the responses of a turn leave together. The
// response to repeat, with all its headers, and the key come as arguments; over MCP it copies the request's id.

import { hash } from 'node:crypto';
import type { CannedResponse } from '../loads.ts';
import { listen } from './listen.ts';

const LIMIT = 1_000_000_000;
const WINDOW_S = 3600;
const LOG_EVERY_MS = 50;

interface Message {
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: { readonly name?: string };
}

const { headers, body } = JSON.parse(process.argv[2] ?? '') as CannedResponse;
const key = process.argv[3] ?? '';
const output = JSON.parse(body);
const isMcp = output.jsonrpc === '2.0';
const sent = new Headers(headers);
const known = new Map([
  [
    hash('sha256', key, 'hex'),
    { id: '0'.repeat(32), owner: 'owner', scopes: ['read'], active: true, endsAtMs: null as number | null },
  ],
]);
const counts = new Map<string, { number: number; window: number; day: number; usedAtMs: number }>();
const lines: string[] = [];
let requests = 0;
let turnEnd: Promise<void> | undefined;

/** Resolves at the end of this turn of the event loop. */
function endOfTurn(): Promise<void> {
  turnEnd ??= new Promise((resolve) => {
    setImmediate(() => {
      turnEnd = undefined;
      resolve();
    });
  });
  return turnEnd;
}

setInterval(() => {
  if (lines.length > 0) void Bun.stdout.write(lines.splice(0).join(''));
}, LOG_EVERY_MS);

const refused = (status: number, code: string) => Response.json({ status, code }, { status });

listen(async (request) => {
  const message = (await request.json()) as Message;
  await endOfTurn();
  const presented = request.headers.get('x-api-key');
  const record = presented === null ? undefined : known.get(hash('sha256', presented, 'hex'));
  const nowMs = Date.now();
  if (record === undefined || !record.active || (record.endsAtMs ?? nowMs) < nowMs)
    return refused(401, 'invalid_api_key');
  requests += 1;
  const time = new Date(nowMs).toISOString();
  const fields = { requestId: `ideal-${requests.toString(36)}`, keyId: record.id, userId: record.owner };
  lines.push(`${JSON.stringify({ time, level: 'info', event: 'API key authentication successful', ...fields })}\n`);
  const number = Math.floor(nowMs / 1000 / WINDOW_S);
  let used = counts.get(record.id);
  if (used?.number !== number) {
    used = { number, window: 0, day: used?.day ?? 0, usedAtMs: 0 };
    counts.set(record.id, used);
  }
  if (used.window >= LIMIT) return refused(429, 'rate_limited');
  used.window += 1;
  used.day += 1;
  used.usedAtMs = nowMs;
  if (!record.scopes.includes('read')) return refused(403, 'insufficient_scope');
  if (isMcp && (message.method !== 'tools/call' || message.params?.name !== 'get_data'))
    return refused(404, 'not_found');
  const text = JSON.stringify(isMcp ? { ...output, id: message.id } : output);
  sent.set('RateLimit', `"key";r=${LIMIT - used.window};t=${WINDOW_S - (Math.floor(nowMs / 1000) % WINDOW_S)}`);
  return new Response(text, { headers: sent });
});
