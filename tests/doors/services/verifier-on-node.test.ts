// `mcp-key-server/verifier`, built as the package has it, on Node: it checks, hears of an end, and stops.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { lateEndings, type Servers, startServers } from '../../support/checked-service.ts';
import { startVerifier, type VerifierProcess } from '../../support/verifier-process.ts';
import { waitFor } from '../../support/wait-for.ts';

const BOUND_MS = 1000;

describe.skipIf(Bun.which('node') === null)('on Node', () => {
  let at: Servers;
  let client: VerifierProcess;
  beforeAll(async () => {
    at = await startServers('embedded', ['bun', 'bun']);
    client = await startVerifier('node', at.url, await at.createKey('operator', ['introspect']));
  }, 180_000);
  afterAll(async () => {
    await client.kill();
    await at[Symbol.asyncDispose]();
  });

  test('it checks from memory what it has asked about', async () => {
    const { key, id } = await at.createKey('alice', ['read', 'write']);
    await waitFor(async () => {
      const before = at.asked.get('/introspect');
      expect(await client.decided({ key, scopes: ['write'] })).toMatchObject({ ok: true, keyId: id, owner: 'alice' });
      return at.asked.get('/introspect') === before;
    });
    expect(await client.ask({ key, scopes: ['admin'] })).toMatchObject({ ok: false, status: 403 });
    expect(await client.ask({ key: 'x' })).toMatchObject({ ok: false, status: 401 });
  });

  test('a key that has ended, in whatever way, is refused within the bound', async () => {
    const letsIn = async (key: string) => (await client.ask({ key, scopes: ['read'] })).ok;
    expect(await lateEndings(at, BOUND_MS, letsIn)).toEqual([]);
  }, 180_000);

  test('closed, it lets nobody in, and keeps no process running', async () => {
    const { key } = await at.createKey('zoe');
    await client.decided({ key });
    await client.ask({ close: true });
    expect(await client.ask({ key })).toMatchObject({ ok: false, status: 503 });
    expect(await client.end()).toBe(0);
  });
});
