// `bun tests/lab/bench/listeners.ts [500]`: what services that listen at /changes, while nothing changes, cost /verify at the
// same process: in its processor time, because load and listeners share the machine with it.

import { buildDatabase } from './database.ts';
import { introspectKey, verifyKey } from './loads.ts';
import { median } from './measure.ts';
import { startOurs } from './ours.ts';
import { machineLine, markdown } from './report.ts';
import { drive } from './wrk.ts';

const LISTENERS_OF_KEY = 5;
const ROUNDS = 5;
const ROUND_S = 2;
const WARM_UP_S = 4;
const COOLED_MS = 1500;

const count = Number(process.argv[2] ?? 500);
const { path, keys } = await buildDatabase(Math.ceil(count / LISTENERS_OF_KEY) + 1, '["read","introspect"]');
const [key = '', ...callers] = keys;
const line = machineLine();
await using server = await startOurs(path);
const load = verifyKey(key);
for (const caller of callers) await ask(caller);
await drive(server, load, WARM_UP_S);

interface Round {
  /** Processor time of the server for each request to /verify, with all else that it did. */
  readonly us: number;
  readonly perSecond: number;
}

async function ask(caller: string): Promise<void> {
  const { path: to, headers, body } = introspectKey(caller, key);
  await fetch(server.url + to, { method: 'POST', headers, body });
}

async function round(): Promise<Round> {
  const before = server.cpuUs();
  const { requests, perSecond } = await drive(server, load, ROUND_S);
  return { us: (server.cpuUs() - before) / requests, perSecond };
}

/** Responses that listeners got. */
let heard = 0;

/** One service, over a connection of its own. Returns what ends it. */
async function listen(caller: string): Promise<() => void> {
  const { hostname, port } = new URL(server.url);
  let [cursor, boundMs, sentAtMs, text, isOver] = ['', 0, 0, '', false];
  const request = () => {
    const body = `cursor=${cursor}`;
    const head = `POST /changes HTTP/1.1\r\nHost: ${hostname}\r\nX-API-Key: ${caller}\r\nContent-Type: application/x-www-form-urlencoded`;
    sentAtMs = performance.now();
    socket.write(`${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  };
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data(_, chunk) {
        text += chunk.toString();
        const body = /\{.*\}/.exec(text)?.[0];
        if (body === undefined) return;
        if (!text.startsWith('HTTP/1.1 200')) throw new Error(text);
        text = '';
        heard += 1;
        const told = JSON.parse(body);
        const waitMs = told.cursor === cursor ? sentAtMs + boundMs / 4 - performance.now() : 0;
        cursor = told.cursor;
        boundMs = told.bound_ms;
        if (!isOver) setTimeout(request, Math.max(0, waitMs));
      },
    },
  });
  request();
  return () => {
    isOver = true;
    socket.end();
  };
}

const found: Record<'without' | 'with', Round[]> = { without: [], with: [] };
let [heardInS, memoryMb, idleUs] = [0, 0, 0];
for (let at = 0; at < ROUNDS; at += 1) {
  found.without.push(await round());
  const aloneMb = server.residentMb();
  const ends: (() => void)[] = [];
  for (let listener = 0; listener < count; listener += 1) {
    ends.push(await listen(callers[Math.floor(listener / LISTENERS_OF_KEY)] ?? key));
  }
  await Bun.sleep(COOLED_MS);
  const before = server.cpuUs();
  await Bun.sleep(COOLED_MS);
  idleUs = (server.cpuUs() - before) / (COOLED_MS / 1000);
  const heardBefore = heard;
  found.with.push(await round());
  heardInS = (heard - heardBefore) / ROUND_S;
  memoryMb = server.residentMb() - aloneMb;
  for (const end of ends) end();
  await Bun.sleep(COOLED_MS);
}
const us = { without: median(found.without.map((one) => one.us)), with: median(found.with.map((one) => one.us)) };
const rates = {
  without: median(found.without.map((one) => one.perSecond)),
  with: median(found.with.map((one) => one.perSecond)),
};
const head = ['Listeners', "µs of the server's processor time a request", '/verify a second'];
const rows = [
  ['0', us.without.toFixed(1), rates.without.toFixed(0)],
  [String(count), us.with.toFixed(1), rates.with.toFixed(0)],
];
process.stdout.write(`${line}\n\n${markdown(head, rows)}\n
By processor time ${(us.without / us.with).toFixed(2)} of without. ${heardInS.toFixed(0)} responses of /changes a second under load;
without load ${(idleUs / 10_000).toFixed(1)} % of a core. ${memoryMb.toFixed(0)} MB more.\n`);
