// `bun tests/lab/bench/from-memory.ts`: what a check takes a service from memory, beside a request to /verify and to
// /introspect for each check. A lease is of 31 million units, so that no check but the first of a key is a question.

import { CLIENTS, startVerifier } from '../../support/verifier-process.ts';
import { buildDatabase } from './database.ts';
import { introspectKey, type Load, verifyKey } from './loads.ts';
import { median, msOf } from './measure.ts';
import { startOurs } from './ours.ts';
import { QUICK } from './plan.ts';
import { machineLine, markdown } from './report.ts';
import { CONNECTIONS, drive } from './wrk.ts';

const KEYS = 100;
const BATCHES = 40;
/** Of each key. A batch is shorter than the bound, also in Python. */
const TIMES = 200;
const REQUESTS = 5000;
const ROUND_S = 1;

const { path, keys } = await buildDatabase(KEYS, '["read","introspect"]');
const [key = '', caller = ''] = keys;
const server = await startOurs(path);

/** Microseconds of a check in the quickest batch, the least disturbed one. */
async function fromMemory(program: (typeof CLIENTS)[number]): Promise<number> {
  const client = await startVerifier(program, server.url, { id: await idOf(caller), key: caller });
  const found: number[] = [];
  for (let batch = 0; batch < BATCHES; batch += 1) {
    const { good, us } = await client.ask({ keys, times: TIMES });
    if (good !== KEYS * TIMES) throw new Error(`${program}: ${good} of ${KEYS * TIMES} checks were good`);
    found.push(us);
  }
  await client.ask({ close: true });
  await client.end();
  return Math.min(...found);
}

async function idOf(of: string): Promise<string> {
  const { path: to, headers, body } = introspectKey(of, of);
  const response = await fetch(server.url + to, { method: 'POST', headers, body });
  return ((await response.json()) as { client_id: string }).client_id;
}

/** Microseconds of a request, one after the other over one connection: the median. */
async function asked({ path: to, method = 'POST', headers, body }: Load): Promise<number> {
  const found: number[] = [];
  for (let count = 0; count < REQUESTS; count += 1) {
    const ask = async () => (await fetch(server.url + to, { method, headers, ...(body !== '' && { body }) })).text();
    found.push(1000 * (await msOf(ask)));
  }
  return median(found.slice(REQUESTS / 2));
}

const row = (name: string, us: number, perSecond: number): string[] => [
  name,
  us < 100 ? us.toFixed(1) : us.toFixed(0),
  Math.round(perSecond).toLocaleString('en'),
];

const line = machineLine();
const rows: string[][] = [];
for (const program of CLIENTS) {
  const us = await fromMemory(program);
  rows.push(row(`from memory, ${program}`, us, 1e6 / us));
}
for (const [name, load] of Object.entries({ '/verify': verifyKey(key), '/introspect': introspectKey(caller, key) })) {
  const us = await asked(load);
  await drive(server, load, QUICK.roundS);
  rows.push(row(`\`${name}\``, us, (await drive(server, load, ROUND_S)).perSecond));
}
const head = ['A check', 'µs, one after the other', `A second (requests: ${CONNECTIONS} connections)`];
process.stdout.write(`${line}\n\n${markdown(head, rows)}\n`);
await server.stop();
