// Secrets in the environment, valid or not: nothing the process writes holds any of them, however it ends.

import { expect, test } from 'bun:test';
import { userToken } from '../support/client.ts';
import { runToExit, startServer } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';

const KEY = `sk_live_${'7e'.repeat(32)}`;

test('a start that fails names the variable, not the key or token in it', async () => {
  const token = await userToken('a database');
  const remote = { JWT_SECRET: TEST_SECRET, DATABASE_URL: 'http://127.0.0.1:9' };
  for (const secret of [KEY, token]) {
    const wrong: Record<string, string>[] = [
      { PORT: secret },
      { LOG_LEVEL: secret },
      { RATE_LIMIT_WINDOW: secret },
      { JWT_ISSUER: secret },
      { JWT_JWKS_URL: `https://user:${secret}@id.example/${secret}`, JWT_SECRET: secret },
      { DATABASE_URL: secret },
      { DATABASE_URL: `ftp://user:${secret}@db.example/?authToken=${secret}` },
      { TLS_CERT_FILE: `/nowhere/${secret}`, TLS_KEY_FILE: `/nowhere/${secret}` },
      { JWT_SECRET: secret.slice(0, 31) },
      { ...remote, DATABASE_AUTH_TOKEN: `${secret}\nsecond line` },
      { ...remote, DATABASE_AUTH_TOKEN: `${secret}é\u0100` },
    ];
    const ends = await Promise.all(wrong.map((env) => runToExit({ env })));
    for (const [index, { code, stderr, stdout }] of ends.entries()) {
      const said = { index, text: stderr + stdout };
      expect({ index, code }).toEqual({ index, code: 1 });
      expect(said.text).not.toContain(secret.slice(0, 31));
      expect(said.text).not.toContain(secret.slice(-20));
      expect(said).toEqual({ index, text: expect.stringMatching(/[A-Z]+_?[A-Z_]+: /) });
    }
  }
}, 180_000);

test('a database out of reach is named without user-info and query', async () => {
  const url = `http://user:${KEY}@127.0.0.1:9/?authToken=${KEY}`;
  await using server = await startServer({ env: { JWT_SECRET: TEST_SECRET, DATABASE_URL: url } });
  expect((await fetch(`${server.url}/mcp/health`)).status).toBe(503);
  expect(await server.stop()).toBe(0);
  expect(server.stderr()).toContain('http://127.0.0.1:9/');
  expect(server.stdout() + server.stderr()).not.toContain(KEY);
});

test('the token of a database that does not accept it is not in the refusal', async () => {
  await using sqld = await startSqld({ auth: true });
  const token = await userToken('a database');
  const { code, stderr, stdout } = await runToExit({
    env: { ...sqld.env, JWT_SECRET: TEST_SECRET, DATABASE_AUTH_TOKEN: token },
  });
  expect(code).toBe(1);
  expect(stderr).toContain('DATABASE_AUTH_TOKEN');
  expect(stderr + stdout).not.toContain(token.slice(-20));
}, 180_000);
