// A real server that is stopped between the decision on a key and the response: when it goes on, the success is late.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { awayFromMidnight, callers, limitedKey, startSeveral, sumOf, use, usesToday } from '../support/callers.ts';
import { callOver, userHeaders } from '../support/client.ts';
import { served } from '../support/cluster.ts';
import { folderWith } from '../support/folder.ts';
import { call, fetchMcp, modern } from '../support/mcp.ts';
import { startServer } from '../support/server-process.ts';
import { isStopped, startSqld } from '../support/sqld.ts';
import { STORE_MODES, type StoreMode, startStore } from '../support/store-mode.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

/** Far from the primary, a busy machine needs more than the least to say 200 at all. */
const lagMaxMsOf = (mode: StoreMode) => (mode === 'embedded' ? 250 : 1000);

/** A tool for keys that leaves a file when it runs, and returns once there is another. */
const TOOL = `import { existsSync, writeFileSync } from 'node:fs';
import { defineTool, ok, v, type ToolDeps } from 'mcp-key-server';
export default ({ guards }: ToolDeps) =>
  defineTool(guards.apiKey, {
    name: 'waits', title: 'Waits', description: 'Waits.', annotations: {} as never, input: v.strictObject({}),
    async run(_input, { requestId }) {
      writeFileSync(\`running-\${requestId}\`, '');
      while (!existsSync('go')) await new Promise((resolve) => setTimeout(resolve, 1));
      return ok({ content: [] });
    },
  });`;

const REFUSED = 'Invalid or expired API key';

test.each([...STORE_MODES])(
  '%s: a server frozen past the bound sends no success for a key revoked meanwhile',
  async (mode) => {
    await using store = await startStore(mode);
    const lagMaxMs = lagMaxMsOf(mode);
    const env = { JWT_SECRET: TEST_SECRET, REVOCATION_LAG_MAX_MS: String(lagMaxMs), ...store.env() };
    await using elsewhere = await startServer({ env });
    const folder = folderWith({ 'tools/waits.ts': TOOL });
    await using here = await startServer({ env: { ...env, ...store.env() }, folder });
    const alice = await userHeaders('alice');
    const { body } = await callOver(elsewhere.url, 'create_api_key', { name: 'n', scopes: ['read'] }, alice);
    const key = { 'x-api-key': body.key };
    const use = async () => (await callOver(here.url, 'get_data', {}, key)).status;
    await waitFor(async () => (await use()) === 200); // a busy machine may be 503 for a moment

    const mcp = async (sent: object, headers: Record<string, string> = {}) =>
      (await fetchMcp(here, sent, { ...key, ...headers })).text();
    const latest = modern('tools/call', { name: 'waits', arguments: {} });
    const responses = Promise.all([
      callOver(here.url, 'waits', {}, key).then(({ body: problem }) => JSON.stringify(problem)),
      mcp(call('waits')),
      mcp([call('waits')]),
      mcp(latest.body, latest.headers),
    ]);
    await waitFor(() => readdirSync(folder).filter((name) => name.startsWith('running-')).length === 4);
    here.signal('SIGSTOP');
    await waitFor(() => isStopped(here.pid));
    await callOver(elsewhere.url, 'revoke_api_key', { keyId: body.id }, alice);
    await Bun.sleep(lagMaxMs);
    writeFileSync(join(folder, 'go'), '');
    here.signal('SIGCONT');
    // Nothing else than that it has ended; or, far from the primary, that this can't be told in time.
    const refusal = mode === 'embedded' ? REFUSED : /Invalid or expired API key|The key store is out of reach/;
    for (const text of await responses) expect(text).toMatch(refusal);
    expect((await served(async () => ({ status: await use() }))).status).toBe(401);
  },
);

// A database that is away makes no limit an outage: calls of known keys go on with what their process knows, within the
// bound in which it can't have missed a revocation, and what they counted is written when the database is back.

const LIMIT = 400;
const BEFORE = 20;
const AWAY = 100;

test('a key goes on counting while the database is away, and each of its uses arrives once when it is back', async () => {
  await using started = new AsyncDisposableStack();
  await awayFromMidnight();
  const sqld = started.use(await startSqld());
  // Far longer than this takes: a process that is cut off for longer than the bound refuses, whatever the limit.
  const env = { ...sqld.env, RATE_LIMIT_REQUESTS: '0', REVOCATION_LAG_MAX_MS: '60000' };
  const servers = await startSeveral(started, 2, env);
  const [first, second] = servers as [(typeof servers)[0], (typeof servers)[0]];
  const key = await limitedKey(first, { rateLimit: { requests: LIMIT, window: '366d' } });
  const calls = (count: number) =>
    Promise.all(
      servers.map((server) =>
        callers(server, key, { done: ({ accepted, others }) => others.length > 0 || accepted >= count }),
      ),
    );
  const before = await calls(BEFORE);
  await sqld.kill();
  const away = await calls(AWAY);
  expect([...before, ...away].flatMap(({ others }) => others)).toEqual([]);
  expect([...before, ...away].map(({ refused }) => refused)).toEqual([0, 0, 0, 0]);
  await sqld.start();
  const accepted = sumOf([...before, ...away]);
  for (const server of servers) await waitFor(async () => (await usesToday(server, key)) === accepted);

  const rest = await callers(second, key);
  expect(rest.others).toEqual([]);
  const all = accepted + rest.accepted;
  expect(all).toBeGreaterThanOrEqual(LIMIT);
  await waitFor(async () => (await usesToday(first, key)) === all);
  expect(await Promise.all(servers.map((server) => server.stop()))).toEqual([0, 0]);
  const [next] = await startSeveral(started, 1, env);
  if (next === undefined) throw new Error('none started');
  expect(await usesToday(next, key)).toBe(all);
  expect((await use(next, key)).body.code).toBe('rate_limited');
}, 240_000);
