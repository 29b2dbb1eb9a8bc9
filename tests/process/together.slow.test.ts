// Several processes on one database file.

import { expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { callOver, userHeaders } from '../support/client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { refusedWithin } from '../support/wait-for.ts';

test('ten servers started at the same moment on one new file all come up, with one secret', async () => {
  const folder = temporaryFolder();
  const servers = await Promise.all(Array.from({ length: 10 }, () => startServer({ folder })));
  try {
    expect(readdirSync(join(folder, 'data')).filter((name) => name.includes('secret'))).toEqual(['jwt-secret']);
    const headers = await userHeaders('alice', readFileSync(join(folder, 'data/jwt-secret'), 'utf8').trim());
    const created = await Promise.all(
      servers.map(({ url }) => callOver(url, 'create_api_key', { name: url, scopes: ['read'] }, headers)),
    );
    expect(created.map(({ status }) => status)).toEqual(servers.map(() => 200));
    for (const { url } of servers) {
      const { body } = await callOver(url, 'list_api_keys', {}, headers);
      expect(new Set(body.keys.map(({ name }: { name: string }) => name))).toEqual(
        new Set(servers.map((server) => server.url)),
      );
    }
  } finally {
    expect(await Promise.all(servers.map((server) => server.stop()))).toEqual(servers.map(() => 0));
  }
}, 180_000);

test('a thousand keys created through two servers at once are all there, and the 1,001st is refused by both', async () => {
  const env = { JWT_SECRET: TEST_SECRET };
  await using first = await startServer({ env });
  await using second = await startServer({ env, folder: first.folder });
  const headers = await userHeaders('alice');
  const ids: string[] = [];
  const refused: number[] = [];
  let left = 1010;
  const client = async (url: string) => {
    while (left > 0) {
      left -= 1;
      const { status, body } = await callOver(url, 'create_api_key', { name: 'n', scopes: ['read'] }, headers);
      if (status === 200) ids.push(body.id);
      else refused.push(status);
    }
  };
  await Promise.all(Array.from({ length: 16 }, (_, index) => client(index % 2 === 0 ? first.url : second.url)));
  expect(ids).toHaveLength(1000);
  expect(refused).toEqual(Array.from({ length: 10 }, () => 409));
  for (const { url } of [first, second]) {
    const listed = new Set<string>();
    for (let page: { cursor?: string } | null = {}; page !== null; ) {
      const { body } = await callOver(url, 'list_api_keys', page, headers);
      for (const { id } of body.keys) listed.add(id);
      page = body.nextCursor === undefined ? null : { cursor: body.nextCursor };
    }
    expect(listed).toEqual(new Set(ids));
    expect((await callOver(url, 'create_api_key', { name: 'n', scopes: [] }, headers)).status).toBe(409);
  }
}, 180_000);

test('a key created by one server works on the other at once; one revoked there is refused here within the bound', async () => {
  const env = { JWT_SECRET: TEST_SECRET, REVOCATION_LAG_MAX_MS: '250' };
  await using first = await startServer({ env });
  await using second = await startServer({ env, folder: first.folder });
  const headers = await userHeaders('alice');
  const input = { name: 'n', scopes: ['read'] };
  for (let round = 0; round < 10; round += 1) {
    const { body } = await callOver(first.url, 'create_api_key', input, headers);
    const use = async () => (await callOver(second.url, 'get_data', {}, { 'x-api-key': body.key })).status;
    expect(await use()).toBe(200);
    await callOver(first.url, 'revoke_api_key', { keyId: body.id }, headers);
    await refusedWithin(250, use);
  }
}, 180_000);
