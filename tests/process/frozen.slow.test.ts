// A real server that is stopped between the decision on a key and the response: when it goes on, the success is late.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { callOver, userHeaders } from '../support/client.ts';
import { served } from '../support/cluster.ts';
import { folderWith } from '../support/folder.ts';
import { call, fetchMcp, modern } from '../support/mcp.ts';
import { startServer } from '../support/server-process.ts';
import { isStopped } from '../support/sqld.ts';
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
