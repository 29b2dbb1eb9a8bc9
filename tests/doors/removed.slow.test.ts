// The core without a door: types are clean, and a server starts and does what it must.

import { beforeAll, describe, expect, test } from 'bun:test';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DOORS, removeDoor, typeErrors } from '../lab/doors.ts';
import { callOver, userHeaders } from '../support/client.ts';
import { post, request } from '../support/mcp.ts';
import { startServer, untilOpen } from '../support/server-process.ts';
import { copyOfSource } from '../support/source.ts';
import { TEST_SECRET } from '../support/test-app.ts';

const whole = copyOfSource();
beforeAll(async () => {
  expect(await typeErrors(whole)).toBe('');
}, 180_000);

describe.each(Object.keys(DOORS))('without %s', (door) => {
  test('the types are clean, and twenty calls are answered', async () => {
    const root = copyOfSource();
    removeDoor(root, door);
    expect(existsSync(join(root, 'src/doors', door))).toBe(false);
    expect(await typeErrors(root, whole)).toBe('');
    await using server = await startServer({ root, env: { JWT_SECRET: TEST_SECRET } });
    await untilOpen(server);
    const { url } = server;
    const user = await userHeaders('alice');
    const call = (tool: string, input = {}, headers: Record<string, string> = user) =>
      callOver(url, tool, input, headers);
    const statuses: number[] = [];
    const noted = <T extends { readonly status: number }>(response: T): T => {
      statuses.push(response.status);
      return response;
    };
    for (let times = 0; times < 2; times += 1) {
      const { id, key } = noted(await call('create_api_key', { name: 'a key', scopes: ['read'] })).body;
      noted(await call('get_data', {}, { 'x-api-key': key }));
      noted(await fetch(`${url}/verify?scope=read`, { headers: { 'x-api-key': key } }));
      noted(await call('list_api_keys'));
      noted(await post(server, request('tools/call', { name: 'get_data', arguments: {} }), { 'x-api-key': key }));
      noted(await call('rotate_api_key', { keyId: id, overlapHours: 1 }));
      noted(await call('revoke_api_key', { keyId: id }));
      noted(await call('delete_api_key', { keyId: id }));
      for (const path of ['/', '/mcp/health']) noted(await fetch(url + path));
    }
    expect(statuses).toEqual(Array(20).fill(200));
  }, 180_000);
});
