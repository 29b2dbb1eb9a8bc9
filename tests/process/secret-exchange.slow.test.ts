// JWT_SECRET is replaced on three servers under load, as SECURITY.md says: nobody is refused.

import { expect, test } from 'bun:test';
import { callOver, userHeaders } from '../support/client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';

const OLD = 'the old secret, of more than 32 bytes';
const NEW = 'the new secret, of more than 32 bytes';

test('a secret is exchanged on three servers under load without one 401', async () => {
  const folder = temporaryFolder();
  const start = (env: Record<string, string>) => startServer({ folder, env: { LOG_LEVEL: 'warn', ...env } });
  const servers: ServerProcess[] = [];
  const statuses = new Map<number, number>();
  const asked = new Map<number, ServerProcess>(); // by client: whom it asks now
  let signedWith = OLD;
  let ended = false;

  async function client(number: number): Promise<void> {
    for (let turn = 0; !ended; turn += 1) {
      const user = `user ${number} ${turn}`; // another one each time, because a person may list only so often
      const server = servers[turn % servers.length];
      if (server === undefined) break;
      asked.set(number, server);
      const { status } = await callOver(server.url, 'list_api_keys', {}, await userHeaders(user, signedWith));
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  }

  /** One after the other; each takes calls until its successor does, and those on their way to it have arrived. */
  async function replaceAll(env: Record<string, string>): Promise<void> {
    for (const [index, old] of [...servers].entries()) {
      servers[index] = await start(env);
      while ([...asked.values()].includes(old)) await Promise.race([...clients, Bun.sleep(5)]);
      expect(await old.stop()).toBe(0);
    }
  }

  for (let count = 0; count < 3; count += 1) servers.push(await start({ JWT_SECRET: OLD }));
  const clients = [client(0), client(1)];
  try {
    await replaceAll({ JWT_SECRET: NEW, JWT_SECRET_PREVIOUS: OLD });
    const [{ url } = { url: '' }] = servers;
    expect((await callOver(url, 'list_api_keys', {}, await userHeaders('alice', `no ${OLD}`))).status).toBe(401);
    signedWith = NEW;
    const signed = [...statuses.values()][0] ?? 0;
    while ((statuses.get(200) ?? 0) < signed + 20) await Promise.race([...clients, Bun.sleep(5)]);
    await replaceAll({ JWT_SECRET: NEW });
  } finally {
    ended = true;
    await Promise.all(clients);
    await Promise.all(servers.map((server) => server.kill()));
  }
  expect([...statuses.keys()]).toEqual([200]);
  expect(statuses.get(200)).toBeGreaterThan(50);
}, 180_000);
