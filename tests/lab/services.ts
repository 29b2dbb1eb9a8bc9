// `bun tests/lab/services.ts [CHECKOUT]`: a service that checks keys from memory, at several distances from two servers of
// this or another checkout on one file: how long after its end a key was last let in, and how many requests a second it
// sends, with the calls of the database that are no polls. Exits with 1 if a key was let in later than the bound.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { callOver, userHeaders } from '../support/client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { type ServerProcess, startServer, untilOpen } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { machineLine, markdown } from './bench/report.ts';

const HERE = join(import.meta.dir, '../..');
const root = process.argv[2] ?? HERE;
const ENDINGS = 20;
const QUIET_MS = 10_000;
const CHECKED_EVERY_MS = 5;
const METRICS_TOKEN = 'metrics-token-of-a-lab-script-of-32-bytes';

/** A bound, and how long a request and its response are on their way together. */
const PLACES = [
  [1000, 0],
  [1000, 50],
  [1000, 200],
  [250, 0],
  [250, 20],
] as const;

const VERIFIERS = ['src/doors/services/verifier.ts', 'src/start/package/verifier.ts'];
const file = VERIFIERS.map((name) => join(root, name)).find((path) => existsSync(path)) ?? '';
const { createVerifier } = (await import(file)) as typeof import('../../src/doors/services/verifier.ts');

/** What a service reaches: the servers in turn, so far away. Counts requests by path. */
function frontOf(servers: readonly ServerProcess[], awayMs: number) {
  const asked = new Map<string, number>();
  let turn = 0;
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const { pathname } = new URL(request.url);
      asked.set(pathname, (asked.get(pathname) ?? 0) + 1);
      const { headers, method } = request;
      const body = await request.arrayBuffer();
      if (awayMs > 0) await Bun.sleep(awayMs / 2);
      turn += 1;
      const response = await fetch(`${servers[turn % servers.length]?.url}${pathname}`, { method, headers, body });
      const text = await response.text();
      if (awayMs > 0) await Bun.sleep(awayMs / 2);
      return new Response(text, { status: response.status, headers: response.headers });
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, asked, stop: () => server.stop(true) };
}

/** Calls of the database that are no polls of changes, of all servers. */
async function readsOf(servers: readonly ServerProcess[]): Promise<number> {
  let reads = 0;
  for (const { url } of servers) {
    const response = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
    const counts = (await response.text()).matchAll(
      /^mcp_keys_store_duration_seconds_count\{operation="(\w+)"\} (\d+)$/gm,
    );
    for (const [, operation, count] of counts) if (operation !== 'changes_after') reads += Number(count);
  }
  return reads;
}

async function measure(boundMs: number, awayMs: number) {
  const env = {
    DATABASE_URL: `file:${join(temporaryFolder(), 'keys.db')}`,
    JWT_SECRET: TEST_SECRET,
    REVOCATION_LAG_MAX_MS: String(boundMs),
    RATE_LIMIT_REQUESTS: '0',
    LOG_LEVEL: 'warn',
    METRICS_TOKEN,
  };
  const servers = [await startServer({ root, env }), await startServer({ root, env })];
  for (const server of servers) await untilOpen(server);
  const front = frontOf(servers, awayMs);
  const owner = await userHeaders('alice');
  const call = async (tool: string, input: object) => (await callOver(servers[0]?.url ?? '', tool, input, owner)).body;
  const { id, key } = await call('create_api_key', { name: 'service', scopes: ['introspect'] });
  const verifier = createVerifier({ url: front.url, id, key });
  const letsIn = async (of: string): Promise<boolean> => (await verifier.verify(of)).ok;

  const known = (await call('create_api_key', { name: 'a key', scopes: ['read'] })).key;
  while (!(await letsIn(known))) await Bun.sleep(CHECKED_EVERY_MS);
  await Bun.sleep(2 * boundMs);
  front.asked.clear();
  await Bun.sleep(QUIET_MS / 2);
  const quiet = (((front.asked.get('/changes') ?? 0) / QUIET_MS) * 2000).toFixed(1);
  front.asked.clear();
  const before = await readsOf(servers);
  const startedMs = performance.now();
  while (performance.now() < startedMs + QUIET_MS) {
    await letsIn(known);
    await Bun.sleep(CHECKED_EVERY_MS);
  }
  const seconds = (performance.now() - startedMs) / 1000;
  const reads = (await readsOf(servers)) - before;
  const perS = (path: string) => ((front.asked.get(path) ?? 0) / seconds).toFixed(1);
  const [changes, questions] = [perS('/changes'), perS('/introspect')];

  async function lastYes(after: number): Promise<number> {
    const made = await call('create_api_key', { name: 'a key', scopes: ['read'] });
    while (!(await letsIn(made.key))) await Bun.sleep(CHECKED_EVERY_MS);
    const endsAtMs = performance.now() + 2 * boundMs + after;
    let endedAtMs = Number.POSITIVE_INFINITY;
    let isEnding = false;
    let lastMs = 0;
    while (performance.now() < endedAtMs + 1.5 * boundMs) {
      if (!isEnding && performance.now() >= endsAtMs) {
        isEnding = true;
        void call('revoke_api_key', { keyId: made.id }).then(() => {
          endedAtMs = performance.now();
        });
      }
      if (await letsIn(made.key)) lastMs = performance.now();
      await Bun.sleep(CHECKED_EVERY_MS);
    }
    return lastMs - endedAtMs;
  }
  const last = await Promise.all(Array.from({ length: ENDINGS }, (_, number) => lastYes((number * boundMs) / 7)));
  await verifier.close();
  front.stop();
  for (const server of servers) await server.stop();
  return { quiet, changes, questions, reads, worstMs: Math.round(Math.max(...last)) };
}

const rows: string[][] = [];
let isLate = false;
for (const [boundMs, awayMs] of PLACES) {
  const { quiet, changes, questions, reads, worstMs } = await measure(boundMs, awayMs);
  isLate ||= worstMs > boundMs;
  rows.push([`${boundMs} ms`, `${awayMs} ms`, quiet, changes, questions, String(reads), `${worstMs} ms`]);
  console.error(rows.at(-1)?.join(' | '));
}
const heads = [
  'bound',
  'away',
  '`/changes` a second, quiet',
  'in use',
  'questions a second',
  'reads',
  `last yes of ${ENDINGS}`,
];
console.log(`${machineLine()}\n\n${markdown(heads, rows)}`);
process.exitCode = Number(isLate);
