// `bun tests/lab/entered.ts [--functions]`: the files and functions of src/ that one warm call enters, by V8's precise
// coverage (Deno's inspector): get_data over REST, with a key that the server knows and one that it doesn't; get_data over
// MCP 2026-07-28; and create_api_key as the page calls it. `--functions` names them.

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { commandOf, startServer } from '../support/server-process.ts';
import { waitFor } from '../support/wait-for.ts';

const SRC = pathToFileURL(join(import.meta.dir, '../../src/')).href;
const WARM_CALLS = 20;
const SECRET = 'a secret of the laboratory alone, long enough';

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
  env: { JWT_SECRET: SECRET, RATE_LIMIT_REQUESTS: '1000000', USER_RATE_LIMIT: '0' },
});
// The first line that names an address is the inspector's.
const urlOf = () => /listening on (http\S+)\n/.exec(server.stderr())?.[1] ?? '';
await waitFor(() => urlOf() !== '');
const url = urlOf();
const inspector = await openInspector(/ws:\/\/127\.0\.0\.1:\d+\/\S+/.exec(server.stderr())?.[0] ?? '');
const token = await userToken();

await inspector.send('Profiler.enable');
await inspector.send('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

const user = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };

const create = () => call('/tools/create_api_key', user, { name: 'a key', scopes: ['read'], expiresInDays: 30 });
const key = ((await (await create()).json()) as { key: string }).key;
const withKey = { 'X-API-Key': key, 'Content-Type': 'application/json' };
const message = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: {
    name: 'get_data',
    arguments: {},
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'laboratory', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  },
};
const overMcp = {
  ...withKey,
  Accept: 'application/json, text/event-stream',
  'MCP-Protocol-Version': '2026-07-28',
  'Mcp-Method': 'tools/call',
  'Mcp-Name': 'get_data',
};

await measure('REST get_data', () => call('/tools/get_data', withKey, {}));
const unseen: string[] = [];
for (let keys = 0; keys <= WARM_CALLS; keys += 1) unseen.push(((await (await create()).json()) as { key: string }).key);
await measure('REST get_data, key unseen', () =>
  call('/tools/get_data', { ...withKey, 'X-API-Key': unseen.pop() ?? '' }, {}),
);
await measure('MCP get_data', () => call('/mcp', overMcp, message));
await measure('create_api_key', create);
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

function call(path: string, headers: Record<string, string>, body: unknown): Promise<Response> {
  return fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
}

async function userToken(): Promise<string> {
  const { SignJWT } = await import('jose');
  return new SignJWT({ sub: 'alice' })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('1h')
    .sign(new TextEncoder().encode(SECRET));
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
