// A disk that is full or read-only: 503 for what must be written, everything else goes on, and no restart is needed.

import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { callOver, userHeaders } from '../../support/client.ts';
import { openFiles } from '../../support/open-files.ts';
import { createPerson, seeded } from '../../support/person.ts';
import { runToExit, type ServerProcess, startServer } from '../../support/server-process.ts';
import { canMount, type SmallDisk, smallDisk } from '../../support/small-disk.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { transportOf } from '../../support/transports.ts';

const mountable = canMount();
if (!mountable) console.warn('disk.test.ts is skipped: mounting a tmpfs takes root');

const FAILED_WRITES = 1000;
/** Failed connections are closed by the garbage collector, so some stand open at any time. */
const OPEN_FILES_MAX = 900;

const envOn = (disk: SmallDisk) => ({
  JWT_SECRET: TEST_SECRET,
  RATE_LIMIT_REQUESTS: '0',
  DATABASE_URL: `file:${join(disk.folder, 'keys.db')}`,
});

/** What alice sees of a server: statuses alone. */
async function person({ url }: ServerProcess) {
  const headers = await userHeaders('alice');
  const call = (tool: string, input: object) => callOver(url, tool, input, headers);
  return {
    call,
    create: () => call('create_api_key', { name: 'n'.repeat(200), scopes: ['read'] }),
    use: async (key: string) => (await callOver(url, 'get_data', {}, { 'x-api-key': key })).status,
    list: async () => (await call('list_api_keys', {})).body.keys.map(({ id }: { id: string }) => id).sort(),
  };
}

const PEOPLE = 8;
const FULL_ROUNDS = 5;
const HEALED_MS_MAX = 5000;

/** A connection that was opened on the read-only disk is replaced once it has failed; until then a write may be 503. */
async function heals(call: () => Promise<number>): Promise<void> {
  const startedMs = performance.now();
  let status = await call();
  while (status === 503 && performance.now() - startedMs < HEALED_MS_MAX) status = await call();
  expect(status).toBe(200);
}

describe.skipIf(!mountable)('a disk', () => {
  test('full: writes are 503 with Retry-After, reads and known keys work, and it heals by itself', async () => {
    using disk = smallDisk();
    await using server = await startServer({ env: envOn(disk) });
    const alice = await person(server);
    const kept = [(await alice.create()).body, (await alice.create()).body];
    disk.fill();
    let refused = await alice.create();
    while (refused.status === 200) {
      kept.push(refused.body); // what the log still had room for
      refused = await alice.create();
    }
    const [first, second] = kept;
    for (const answer of [
      refused,
      await alice.create(),
      await alice.call('revoke_api_key', { keyId: first.id }),
      await alice.call('delete_api_key', { keyId: first.id }),
    ]) {
      expect(answer.status).toBe(503);
      expect(answer.body.code).toBe('store_unavailable');
      expect(answer.headers.get('retry-after')).toBe('1');
    }
    expect(await alice.use(first.key)).toBe(200);
    expect(await alice.list()).toEqual(kept.map(({ id }) => id).sort());

    disk.free();
    expect((await alice.call('revoke_api_key', { keyId: first.id })).status).toBe(200);
    expect(await alice.use(first.key)).toBe(401);
    kept.push((await alice.create()).body);
    expect((await alice.call('delete_api_key', { keyId: second.id })).status).toBe(200);
    await server.kill();

    await using again = await startServer({ env: envOn(disk) });
    expect(await (await person(again)).list()).toEqual(
      kept
        .filter((key) => key !== second)
        .map(({ id }) => id)
        .sort(),
    );
  });

  test('full and free again and again while people work: each answer is right or 503, and what was answered stays', async () => {
    using disk = smallDisk();
    await using server = await startServer({ env: envOn(disk) });
    const people = await Promise.all(
      Array.from({ length: PEOPLE }, (_, index) =>
        createPerson(`person ${index}`, transportOf(index, server.url), seeded(index)),
      ),
    );
    let over = false;
    let refused = 0;
    const work = people.map(async (person) => {
      while (!over) if (!(await person.step())) refused += 1;
    });
    for (let round = 0; round < FULL_ROUNDS; round += 1) {
      await Bun.sleep(100);
      disk.fill();
      await Bun.sleep(200);
      disk.free();
    }
    over = true;
    await Promise.all(work);
    expect(refused).toBeGreaterThan(PEOPLE);
    await server.kill();
    await using again = await startServer({ env: envOn(disk) });
    await Promise.all(people.map((person, index) => person.moveTo(transportOf(index, again.url), 'crash')));
  });

  test(`full: ${FAILED_WRITES} failed writes leave no heap of open files`, async () => {
    using disk = smallDisk();
    await using server = await startServer({ env: envOn(disk) });
    const alice = await person(server);
    disk.fill();
    for (let count = 0; count < FAILED_WRITES; count += 1) expect((await alice.create()).status).toBe(503);
    expect(openFiles(server.pid).filter((file) => file.startsWith(disk.folder)).length).toBeLessThan(OPEN_FILES_MAX);
    disk.free();
    expect((await alice.create()).status).toBe(200);
  });

  test('read-only: writes are 503, reads work, and it heals by itself', async () => {
    using disk = smallDisk();
    await using server = await startServer({ env: envOn(disk) });
    const alice = await person(server);
    const { id, key } = (await alice.create()).body;
    disk.fill();
    while ((await alice.create()).status === 200); // after a failure the file is opened anew
    disk.coverReadOnly();
    for (const answer of [await alice.create(), await alice.call('revoke_api_key', { keyId: id })]) {
      expect(answer.status).toBe(503);
      expect(answer.headers.get('retry-after')).toBe('1');
    }
    expect(await alice.list()).toContain(id);
    expect(await alice.use(key)).toBe(200);

    disk.uncover();
    disk.free();
    await heals(async () => (await alice.call('revoke_api_key', { keyId: id })).status);
    expect(await alice.use(key)).toBe(401);
    expect((await alice.create()).status).toBe(200);
  });

  test('gone: everything that needs it is 503, never 500, and it heals by itself', async () => {
    using disk = smallDisk();
    await using server = await startServer({ env: envOn(disk) });
    const alice = await person(server);
    const { id } = (await alice.create()).body;
    disk.fill();
    while ((await alice.create()).status === 200); // after a failure the file is opened anew
    disk.coverEmpty();
    const answers = [await alice.create(), await alice.call('list_api_keys', {}), await alice.call('get_data', {})];
    expect(answers.map(({ status }) => status)).toEqual([503, 503, 401]);
    // Health is content with a poll that is younger than the polls' interval.
    while ((await fetch(`${server.url}/mcp/health`)).status !== 503) await Bun.sleep(10);
    disk.uncover();
    disk.free();
    await heals(async () => (await alice.call('revoke_api_key', { keyId: id })).status);
    expect((await fetch(`${server.url}/mcp/health`)).status).toBe(200);
  });

  test('read-only and empty: the start is refused in one line', async () => {
    using disk = smallDisk();
    disk.coverReadOnly();
    const { code, stderr } = await runToExit({ env: envOn(disk) });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^mcp-key-server: DATABASE_URL: expected a file that can be opened and written, but .*\n$/);
  });

  test('full: the start of a new database is refused in one line', async () => {
    using disk = smallDisk();
    disk.fill();
    const { code, stderr } = await runToExit({ env: envOn(disk) });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^mcp-key-server: DATABASE_URL: expected a file that can be opened and written, but .*\n$/);
  });
});
