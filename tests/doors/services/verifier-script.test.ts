// A program with the clients that check keys from memory, which nobody closes: it ends by itself, and listening for
// months leaves nothing behind.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type MadeKey, type Servers, startServers } from '../../support/checked-service.ts';
import { run } from '../../support/command.ts';
import { ROOT } from '../../support/documents.ts';
import { rows } from '../../support/everything.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { commandOf, PROGRAMS, scriptFolder } from '../../support/verifier-process.ts';

let at: Servers;
let service: MadeKey;
let user: MadeKey;
beforeAll(async () => {
  // With a bound that a busy machine keeps: beyond it the client says so on stderr.
  at = await startServers('embedded', ['bun'], { REVOCATION_LAG_MAX_MS: '5000' });
  [service, user] = [await at.createKey('operator', ['introspect']), await at.createKey('alice')];
}, 180_000);
afterAll(() => at[Symbol.asyncDispose]());

const ONCE = `
import process from 'node:process';
import { createVerifier } from './verifier.js';
const [url, id, key, user] = process.argv.slice(2);
console.log((await createVerifier({ url, id, key }).verify(user)).ok);
`;
const ONCE_IN_PYTHON = `
import sys
sys.path.insert(0, sys.argv[1])
from verifier import KeyVerifier
print(KeyVerifier(*sys.argv[2:5]).verify(sys.argv[5]).ok)
`;

describe.each(rows(PROGRAMS, PROGRAMS.length))('on %s', (program) => {
  test('a script with one check ends, although nobody closes it', async () => {
    const command = await commandOf(program, program === 'python3' ? ONCE_IN_PYTHON : ONCE);
    const args = [at.url, service.id, service.key, user.key];
    const { code, stdout, stderr } = await run([...command, ...args], { cwd: temporaryFolder() });
    expect({ code, stderr, stdout }).toEqual({
      code: 0,
      stderr: '',
      stdout: program === 'python3' ? 'True\n' : 'true\n',
    });
  }, 180_000);
});

test('the file that people copy has no default import, which TypeScript may compile to undefined', () => {
  const source = readFileSync(join(ROOT, 'src/doors/services/verifier.ts'), 'utf8');
  const imported = [...source.matchAll(/^import (.+) from/gm)].map(([, names]) => names);
  expect(imported).not.toBeEmpty();
  expect(imported.filter((names) => !/^(\* as \w+|\{[^}]+\})$/.test(names ?? ''))).toEqual([]);
});

const LISTENS = `
import { createVerifier } from './verifier.js';
let polls = 0;
let held;
globalThis.fetch = async () => {
  polls += 1;
  if (polls % 200 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  await held;
  const news = { cursor: polls + '.0123456789abcdef', changed: [], fresh_ms: 1e6, bound_ms: 0 };
  return { status: 200, ok: true, headers: new Map(), json: async () => news };
};
async function bytesAfter(count) {
  while (polls < count) await new Promise((resolve) => setTimeout(resolve, 20));
  let release;
  held = new Promise((resolve) => { release = resolve; });
  for (let times = 0; times < 8; times += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    gc();
  }
  const at = polls;
  held = undefined;
  release();
  return [at, process.memoryUsage().heapUsed];
}
createVerifier({ url: 'http://127.0.0.1:1', id: 'a', key: 'b' });
const [before, less] = await bytesAfter(10000);
const [after, more] = await bytesAfter(50000);
console.log((more - less) / (after - before));
process.exit();
`;

const CHECKS = `
import { createVerifier } from './verifier.js';
const bounds = { fresh_ms: 1e6, bound_ms: 1e6 };
const changes = { ...bounds, cursor: '1.0123456789abcdef', changed: [] };
const yes = { ...bounds, active: true, client_id: 'k', sub: 'alice', scope: 'read', key_name: 'n', marks: ['a', 'b'],
  tell: 't', lease_ms: 5, lease_uses: [{ holder: 'h', units: 100 }] };
globalThis.fetch = async (url) => ({
  status: 200, ok: true, headers: new Map(), json: async () => (String(url).endsWith('/changes') ? changes : yes),
});
const verifier = createVerifier({ url: 'http://127.0.0.1:1', id: 'a', key: 'b' });
let checks = 0;
async function bytesAfter(count) {
  for (; checks < count; checks += 1) {
    if (!(await verifier.verify('token ' + checks)).ok) throw new Error('refused');
    if (checks % 200 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  gc();
  return process.memoryUsage().heapUsed;
}
const before = await bytesAfter(10000);
console.log((await bytesAfter(50000) - before) / 40000);
process.exit();
`;

test.skipIf(!PROGRAMS.includes('node')).each([
  ['each poll', LISTENS, 15],
  ['a token that has ended', CHECKS, 50],
])(
  'on Node %s leaves nothing in memory',
  async (_, script, bytesMax) => {
    const folder = await scriptFolder(script);
    const { stdout, stderr } = await run(['node', '--expose-gc', 'script.js'], { cwd: folder });
    expect(stderr).toBe('');
    expect(Number(stdout)).toBeLessThan(bytesMax);
  },
  180_000,
);

const HELD = `
import { setTimeout as pause } from 'node:timers/promises';
import { createVerifier } from './verifier.js';
const LEASE_MS = 100;
const bounds = { fresh_ms: 1e6, bound_ms: 400 };
const changes = { ...bounds, cursor: '1.0123456789abcdef', changed: [] };
const yes = (token) => ({ ...bounds, active: true, client_id: 'k', sub: 's', scope: '', key_name: 'n', marks: [token],
  tell: token, lease_ms: questions > 1 ? 1e6 : LEASE_MS, lease_uses: [{ holder: token, units: 10 }] });
let questions = 0;
let held = [];
let holds = () => false;
async function arrival(path) {
  while (held[0]?.path !== path) await pause(1);
  return held.shift();
}
globalThis.fetch = async (url, { body }) => {
  const { pathname: path } = new URL(url);
  const token = new URLSearchParams(String(body)).get('token');
  if (token === 'ended') questions += 1;
  if (holds(path, token)) await new Promise((release) => held.push({ path, release }));
  return { status: 200, ok: true, headers: new Map(), json: async () => (path === '/changes' ? changes : yes(token)) };
};
const verifier = createVerifier({ url: 'http://127.0.0.1:1', id: 'a', key: 'b' });
const check = () => verifier.verify('ended');
await verifier.verify('other');
holds = (path) => path === '/changes';
const idle = await arrival('/changes');
for (let checks = 0; checks < 6; checks += 1) await check(); // a question, and five of its units
await pause(LEASE_MS + 1);
await verifier.verify('another');
idle.release();
const telling = await arrival('/changes');
holds = (path, token) => token === 'ended';
const checked = check();
const question = await arrival('/introspect');
telling.release();
await pause(1);
holds = () => false;
question.release();
await checked;
let letIn = 0;
for (const before = questions; questions === before; letIn += 1) {
  void check();
  await pause(1);
}
console.log(letIn);
process.exit();
`;

test.skipIf(!PROGRAMS.includes('node'))(
  'on Node units that were told while a key was asked about again are not lent once more, though its answer had ended',
  async () => {
    const { stdout, stderr } = await run(['node', 'script.js'], { cwd: await scriptFolder(HELD) });
    expect(stderr).toBe('');
    expect([1, 2, 3]).toContain(Number(stdout)); // of the five that are left the third asks for more
  },
  180_000,
);
