// The statements for emergencies in SECURITY.md, pasted as they stand into a shell beside a running server.

import { describe, expect, test } from 'bun:test';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { userOn } from '../support/client.ts';
import { run } from '../support/command.ts';
import { executeAt } from '../support/database-client.ts';
import { readDocument } from '../support/documents.ts';
import { temporaryFolder } from '../support/folder.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor, waitForWithin } from '../support/wait-for.ts';

/** A question to the store may take most of it, also on a busy machine: after that the response is 503. */
const LAG_MS = 1000;
const env = { JWT_SECRET: TEST_SECRET, REVOCATION_LAG_MAX_MS: String(LAG_MS) };
const SECURITY = readDocument('.github/SECURITY.md');
const [MADE_SINCE = '', ONE_KEY = '', WITH_SQLITE3 = '', WITH_BUN = '', OVER_HTTP = ''] = SECURITY.codeBlocks(
  'When a secret gets out',
  'sh',
);

/** What the lines print, run in the server's folder with `bun` on the PATH. */
async function paste(folder: string, lines: string, variables: Record<string, string>): Promise<string> {
  const commands = temporaryFolder();
  symlinkSync(process.execPath, join(commands, 'bun'));
  const PATH = `${commands}:${process.env.PATH}`;
  const { code, stdout, stderr } = await run(['sh', '-euc', lines], { cwd: folder, env: { PATH, ...variables } });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
}

async function keysOn(server: ServerProcess) {
  const alice = await userOn(server);
  return {
    create: async (): Promise<string> => (await alice.create()).body.key,
    /** Until it is known: on a busy machine a server without a poll of late says 503, which is right. */
    async use(key: string): Promise<number> {
      for (;;) {
        const status = await alice.use(key);
        if (status !== 503) return status;
      }
    },
  };
}

interface Way {
  readonly lines: string;
  readonly needs: string;
  /** What it prints when one key was changed. */
  readonly printed: RegExp;
  start(stack: AsyncDisposableStack): Promise<{ server: ServerProcess; variables: Record<string, string> }>;
}

const onFile: Way['start'] = async (stack) => ({ server: stack.use(await startServer({ env })), variables: {} });
const onSqld: Way['start'] = async (stack) => {
  const sqld = stack.use(await startSqld({ auth: true }));
  return { server: stack.use(await startServer({ env: { ...env, ...sqld.env } })), variables: sqld.env };
};

const WAYS: readonly Way[] = [
  { needs: 'sqlite3', lines: WITH_SQLITE3, printed: /^$/, start: onFile },
  { needs: 'bun', lines: WITH_BUN, printed: /^1\n$/, start: onFile },
  { needs: 'curl', lines: OVER_HTTP, printed: /"type":"ok".*"affected_row_count":1/, start: onSqld },
];

for (const { needs, lines, printed, start } of WAYS) {
  const missing = needs !== 'bun' && Bun.which(needs) === null;
  if (missing) console.warn(`SECURITY's statements with ${needs} are not tested: it is missing`);

  describe.skipIf(missing)(`with ${needs}`, () => {
    test('what was created since a moment is revoked, in the running server too', async () => {
      await using stack = new AsyncDisposableStack();
      const { server, variables } = await start(stack);
      const { create, use } = await keysOn(server);
      const good = await create();
      const bornMs = Date.now();
      await waitFor(() => Date.now() > bornMs);
      const leakedAtMs = Date.now();
      const bad = await create();
      expect([await use(good), await use(bad)]).toEqual([200, 200]);
      const [moment = ''] = /(?<=--created-after )\S+(?=`)/.exec(SECURITY.text) ?? []; // the same as in the statement
      const since = MADE_SINCE.replace(String(Date.parse(moment)), String(leakedAtMs));
      expect(await paste(server.folder, since + lines, variables)).toMatch(printed);
      await waitForWithin(LAG_MS, async () => (await use(bad)) === 401);
      expect(await use(good)).toBe(200);
    });

    test('a key that was found is revoked, and no other', async () => {
      await using stack = new AsyncDisposableStack();
      const { server, variables } = await start(stack);
      const { create, use } = await keysOn(server);
      const [good, found] = [await create(), await create()];
      expect([await use(good), await use(found)]).toEqual([200, 200]);
      expect(await paste(server.folder, ONE_KEY + lines, { ...variables, KEY: found })).toMatch(printed);
      await waitForWithin(LAG_MS, async () => (await use(found)) === 401);
      expect(await use(good)).toBe(200);
    });
  });
}

test('Bun runs them also where a trigger needs a newer SQLite than the machine’s shell may have', async () => {
  await using server = await startServer({ env });
  const { create, use } = await keysOn(server);
  const key = await create();
  await executeAt(
    `file:${join(server.folder, 'data/keys.db')}`,
    `CREATE TRIGGER newer AFTER UPDATE ON api_keys BEGIN SELECT unixepoch('subsec'); END`,
  );
  expect(await paste(server.folder, ONE_KEY + WITH_BUN, { KEY: key })).toBe('1\n');
  await waitForWithin(LAG_MS, async () => (await use(key)) === 401);
});
