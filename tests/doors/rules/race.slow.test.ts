// race.test.ts with a real process on a file, which stands still while it waits for the key set of an issuer: between the
// read of the rules and that of the key.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { served } from '../../support/cluster.ts';
import { rows } from '../../support/everything.ts';
import { diskFolder } from '../../support/folder.ts';
import { createIssuer } from '../../support/issuer.ts';
import { keysCommand } from '../../support/keys-command.ts';
import { startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { SUBJECT } from './workload.ts';

setDefaultTimeout(120_000); // processes are started, on machines that do other things too

const BOUND_MS = 1000; // the default

test.each(rows(['bun', 'deno'] as const, 1))(
  '%s: a rule ends while the process stands still: its tokens are refused',
  async (runtime) => {
    await using issuer = await createIssuer();
    const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    issuer.overrides.set('/jwks', async () => {
      asked.resolve();
      await answer.promise;
      return Response.json({ keys: issuer.keys.map(({ jwk }) => jwk) });
    });
    const env = {
      DATABASE_URL: `file:${diskFolder()}/keys.db`,
      JWT_SECRET: TEST_SECRET,
      PUBLIC_URL: 'http://localhost:1',
    };
    await using server = await startServer({ runtime, env });
    const keys = async (...args: string[]) => (await keysCommand(env, args)).stdout.trim();
    const id = await keys('create', '--user', 'acme', '--name', 'n', '--scope', 'read', '--no-secret');
    const rule = await keys('rule', 'add', id, '--issuer', issuer.url, '--subject', SUBJECT);
    const nowS = Math.floor(Date.now() / 1000);
    const token = (jti: string) => issuer.token({ sub: SUBJECT, aud: env.PUBLIC_URL, iat: nowS, exp: nowS + 300, jti });
    const use = (one: string) =>
      fetch(`${server.url}/tools/get_data`, { method: 'POST', headers: { 'x-api-key': one } });
    const tokens = [await token('a'), await token('b')];
    const waiting = tokens.map(use);
    await asked.promise;
    server.signal('SIGSTOP');
    await keys('rule', 'remove', rule);
    await Bun.sleep(BOUND_MS); // what it read before counts so long
    answer.resolve();
    server.signal('SIGCONT');
    for (const { status } of await Promise.all(waiting)) expect([401, 503]).toContain(status);
    for (const one of tokens) expect((await served(() => use(one))).status).toBe(401);
  },
);
