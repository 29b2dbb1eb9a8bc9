// `bun tests/lab/entered.ts [--functions]`: the files and functions of src/ that one warm call enters, by V8's precise
// coverage (Deno's inspector): get_data over REST, with a key that the server knows and one that it doesn't; get_data over
// MCP 2026-07-28; and create_api_key as the page calls it. `--functions` names them.

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { userHeaders } from '../support/client.ts';
import { commandOf, startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';
import { type Load, mcp2026GetData, restGetData } from './bench/loads.ts';

const SRC = pathToFileURL(join(import.meta.dir, '../../src/')).href;
const WARM_CALLS = 20;

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly {
    readonly functionName: string;
    readonly ranges: readonly { readonly count: number }[];
  }[];
}

const [deno = '', run = '', ...words] = commandOf('deno');
await using server = await startServer({
  runtime: 'deno',
  command: [deno, run, '--inspect=127.0.0.1:0', ...words],
  env: { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '1000000', USER_RATE_LIMIT: '0' },
});
// The first line that names an address is the inspector's.
const urlOf = () => /listening on (http\S+)\n/.exec(server.stderr())?.[1] ?? '';
await waitFor(() => urlOf() !== '');
const url = urlOf();
const inspector = await openInspector(/ws:\/\/127\.0\.0\.1:\d+\/\S+/.exec(server.stderr())?.[0] ?? '');

await inspector.send('Profiler.enable');
await inspector.send('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

const creation: Load = {
  path: '/tools/create_api_key',
  headers: { ...(await userHeaders('alice')), 'Content-Type': 'application/json' },
  body: JSON.stringify({ name: 'a key', scopes: ['read'], expiresInDays: 30 }),
};
const newKey = async () => ((await (await send(creation)).json()) as { key: string }).key;
const key = await newKey();

await measure('REST get_data', () => send(restGetData(key)));
const unseen: string[] = [];
for (let keys = 0; keys <= WARM_CALLS; keys += 1) unseen.push(await newKey());
await measure('REST get_data, key unseen', () => send(restGetData(unseen.pop() ?? '')));
await measure('MCP get_data', () => send(mcp2026GetData(key)));
await measure('create_api_key', () => send(creation));
inspector.close();

async function measure(name: string, ask: () => Promise<Response>): Promise<void> {
  for (let calls = 0; calls < WARM_CALLS; calls += 1) await ask().then((response) => response.text());
  await inspector.send('Profiler.takePreciseCoverage'); // sets the counts to zero
  const response = await ask();
  const text = await response.text();
  if (response.status !== 200 || text.includes('"error"')) throw new Error(`${name}: ${response.status} ${text}`);
  const { result } = (await inspector.send('Profiler.takePreciseCoverage')) as { result: readonly ScriptCoverage[] };
  const entered = result
    .filter(({ url }) => url.startsWith(SRC))
    .map(({ url, functions }) => ({
      file: url.slice(SRC.length),
      // The module itself is a function without a name, which was entered at the start.
      names: functions
        .filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0)
        .map(({ functionName }) => functionName || '()'),
    }))
    .filter(({ names }) => names.length > 0)
    .sort((a, b) => a.file.localeCompare(b.file));
  const functions = entered.reduce((sum, { names }) => sum + names.length, 0);
  console.log(`${name}: ${entered.length} files, ${functions} functions`);
  if (process.argv.includes('--functions'))
    for (const { file, names } of entered) console.log(`  ${file}: ${names.join(', ')}`);
}

function send({ path, headers, body }: Load): Promise<Response> {
  return fetch(url + path, { method: 'POST', headers, body });
}

async function openInspector(url: string) {
  const socket = new WebSocket(url);
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = reject;
  });
  const waiting = new Map<number, (result: unknown) => void>();
  socket.onmessage = ({ data }) => {
    const { id, result } = JSON.parse(String(data)) as { id?: number; result?: unknown };
    if (id !== undefined) waiting.get(id)?.(result);
  };
  let last = 0;
  return {
    send: (method: string, params: object = {}) =>
      new Promise<unknown>((resolve) => {
        last += 1;
        waiting.set(last, resolve);
        socket.send(JSON.stringify({ id: last, method, params }));
      }),
    close: () => socket.close(),
  };
}
