// The log, line by line. What must never be in it is tested in secrets.test.ts.

import { describe, expect, test } from 'bun:test';
import { createLog, systemClock } from '../../src/start/package/index.ts';
import { collectedLog } from '../support/collected-log.ts';
import { databaseOf, executeAt } from '../support/database-client.ts';
import { call, post, request } from '../support/mcp.ts';
import { bearer, createTestApp, fingerprint, type LogLine, type TestApp } from '../support/test-app.ts';

const named = async (app: TestApp, event: string): Promise<LogLine[]> =>
  (await app.log()).filter((line) => line.event === event);

describe('events', () => {
  test('created, used, revoked, deleted: with requestId, keyId and userId; changes with the fingerprint', async () => {
    await using app = await createTestApp();
    const alice = await bearer(app, 'alice');
    const { id: keyId, key } = await app.createKey('alice');
    await app.useKey(key);
    await app.call('revoke_api_key', { keyId }, alice);
    await app.call('delete_api_key', { keyId }, alice);
    const events = ['API key created', 'API key authentication successful', 'API key revoked', 'API key deleted'];
    const lines = await app.log();
    expect(lines).toEqual(
      events.map((event) => ({
        time: new Date(app.clock.nowMs()).toISOString(),
        level: 'info',
        event,
        requestId: expect.stringMatching(/./),
        keyId,
        userId: 'alice',
        ...(event !== 'API key authentication successful' && {
          fingerprint: fingerprint(key),
        }),
      })),
    );
    expect(new Set(lines.map(({ requestId }) => requestId)).size).toBe(4);
  });

  test('a user whose id looks like a hash is named, as some issuers have them', async () => {
    await using app = await createTestApp();
    const userId = '0123456789abcdef'.repeat(4);
    await app.createKey(userId);
    expect(await named(app, 'API key created')).toMatchObject([{ userId }]);
  });

  test('a use is logged for the owner that the key has now, also after a shell has changed it', async () => {
    await using app = await createTestApp({ store: 'embedded' });
    const { id, key } = await app.createKey('alice');
    await app.useKey(key);
    await executeAt(databaseOf(app), {
      sql: "UPDATE api_keys SET user_id = 'bob' WHERE id = ?",
      args: [id],
    });
    app.clock.advance(1001);
    await app.useKey(key);
    const used = await named(app, 'API key authentication successful');
    expect(used.map(({ keyId, userId }) => [keyId, userId])).toEqual([
      [id, 'alice'],
      [id, 'bob'],
    ]);
  });

  // The buffer has 65,536 bytes: of the first, each part of the line fits, but not all of them.
  test.each([65_420, 70_000])('a use is one line also where the owner has %d letters', async (length) => {
    await using app = await createTestApp({ store: 'embedded' });
    const { id, key } = await app.createKey('alice');
    const userId = 'x'.repeat(length);
    await executeAt(databaseOf(app), {
      sql: 'UPDATE api_keys SET user_id = ? WHERE id = ?',
      args: [userId, id],
    });
    expect((await app.useKey(key)).status).toBe(200);
    expect(await named(app, 'API key authentication successful')).toMatchObject([{ keyId: id, userId }]);
  });

  test('a request refused for its host, its origin or plain HTTP is found by its id', async () => {
    await using app = await createTestApp({ env: { NODE_ENV: 'production' } });
    const asked = [{ host: 'other.example' }, { origin: 'https://other.example' }, { 'x-api-key': 'x' }];
    const responses: unknown[] = [];
    for (const headers of asked) {
      const { requestId, code } = (await app.call('get_data', {}, headers)).body;
      responses.push({ level: 'warn', event: 'request refused', requestId, code });
    }
    expect(await app.log()).toMatchObject(responses);
  });

  test('a revoke or delete that touched nothing says so', async () => {
    await using app = await createTestApp();
    const { id: keyId } = await app.createKey('alice');
    const mallory = await bearer(app, 'mallory');
    await app.call('revoke_api_key', { keyId }, mallory);
    await app.call('delete_api_key', { keyId }, mallory);
    await app.call('revoke_api_key', { keyId }, await bearer(app, 'alice'));
    await app.call('revoke_api_key', { keyId }, await bearer(app, 'alice'));
    expect(await named(app, 'API key revoked')).toMatchObject([
      { userId: 'mallory', keyId, changed: false },
      { userId: 'alice', keyId },
      { userId: 'alice', keyId, changed: false },
    ]);
    expect((await named(app, 'API key revoked'))[1]).not.toHaveProperty('changed');
    expect(await named(app, 'API key deleted')).toMatchObject([{ userId: 'mallory', keyId, changed: false }]);
  });

  test('a keyId is logged only if it is 32 hex', async () => {
    await using app = await createTestApp();
    const { key } = await app.createKey('alice');
    for (const keyId of [key, 'x', 'A'.repeat(32), '0'.repeat(33), ` ${'0'.repeat(32)}`]) {
      await app.call('revoke_api_key', { keyId }, await bearer(app, 'alice'));
    }
    const lines = await named(app, 'API key revoked');
    expect(lines).toHaveLength(5);
    for (const line of lines) {
      expect(line).toMatchObject({ userId: 'alice', changed: false });
      expect(line).not.toHaveProperty('keyId');
    }
  });

  test('no key, a bad key and missing scopes are warnings, with the real reason, and required and held scopes', async () => {
    await using app = await createTestApp();
    const { key, id: keyId } = await app.createKey('alice', { scopes: ['write', 'admin'] });
    const none = await app.call('get_data');
    const bad = await app.useKey('x');
    const denied = await app.useKey(key);
    expect((await app.log()).filter(({ level }) => level === 'warn')).toEqual([
      expect.objectContaining({ event: 'No API key provided', requestId: none.body.requestId }),
      expect.objectContaining({
        event: 'Invalid or expired API key',
        requestId: bad.body.requestId,
        reason: 'malformed',
      }),
      expect.objectContaining({
        event: 'Insufficient scopes',
        requestId: denied.body.requestId,
        keyId,
        userId: 'alice',
        required: ['read'],
        held: ['write', 'admin'],
      }),
    ]);
  });

  test('no credential is one also where every request without one is refused', async () => {
    await using eager = await createTestApp({ env: { OAUTH_REDIRECTS: 'loopback' } });
    const schemeless = { authorization: `sk_test_${'0'.repeat(64)}` };
    const requestIdOf = async (tool: string, headers?: Record<string, string>) => {
      const { status, body } = await post(eager, call(tool), headers);
      expect(status).toBe(401);
      return body.requestId;
    };
    const none = await requestIdOf('get_data');
    const ofUsers = await requestIdOf('list_api_keys');
    const lacking = await requestIdOf('get_data', schemeless);
    await post(eager, request('tools/list'));
    expect(await eager.log()).toMatchObject([
      { level: 'warn', event: 'No API key provided', requestId: none },
      { level: 'warn', event: 'No user token provided', requestId: ofUsers },
      { level: 'warn', event: 'No API key provided', requestId: lacking, lacksScheme: true },
    ]);
    const overMcp = (await post(eager, call('get_data'), schemeless)).body.detail;
    expect(overMcp).toBe((await eager.call('get_data', {}, schemeless)).body.detail);
  });

  test('LOG_LEVEL leaves out what is below it', async () => {
    await using app = await createTestApp({ env: { LOG_LEVEL: 'warn' } });
    await app.createKey('alice');
    await app.call('get_data');
    expect((await app.log()).map(({ event }) => event)).toEqual(['No API key provided']);
  });
});

describe('the writer', () => {
  test('each line is one JSON object, whatever is in it, and many share one write', async () => {
    const { log, chunks } = collectedLog();
    log.info('started', { text: 'a\nb\u2028\0', nested: { deep: [1] }, nothing: undefined });
    log.warn('tool failed', { userId: 1n, nested: { deep: [1] }, cut: '\ud83d \\ud83d' });
    await log.flush();
    expect(chunks).toHaveLength(1);
    const [first, second, rest] = chunks.join('').split('\n');
    expect(JSON.parse(first ?? '')).toMatchObject({ level: 'info', event: 'started', text: 'a\nb\u2028\0' });
    // What JSON has no form for is logged by its type, in any field.
    const odd = { userId: 'bigint without a JSON form', nested: { deep: [1] }, cut: '\ufffd \\ud83d' };
    expect(JSON.parse(second ?? '')).toMatchObject({ level: 'warn', event: 'tool failed', ...odd });
    expect(rest).toBe('');
  });

  test('a secret that a library quotes is cut out, and the line stays JSON', async () => {
    const { log, chunks } = collectedLog();
    const key = `sk_live_${'a1'.repeat(32)}`;
    log.error('internal error', { error: new Error(`bad key "${key}" with hash ${'0f'.repeat(32)}`) });
    log.info('started', { held: [key] });
    log.info('stopped', { sub: 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhMWExIn0.a1a1' });
    await log.flush();
    const lines = chunks.join('').trim().split('\n');
    expect(lines).toHaveLength(3);
    for (const line of lines) {
      expect(line).not.toContain('a1a1');
      expect(line).not.toContain('0f0f');
      expect(JSON.parse(line)).toHaveProperty('event');
    }
  });

  const cyclic: Record<string, unknown> = {};
  cyclic.self = cyclic;
  test.each([
    ['an error without a stack', Object.assign(new Error('x'), { stack: undefined }), 'Error: x'],
    ['an object', { message: 'x' }, { message: 'x' }],
    ['a cyclic object', cyclic, 'object without a JSON form'],
    ['a bigint', 1n, 'bigint without a JSON form'],
    [
      'a proxy that throws',
      new Proxy(new Error('x'), { get: () => expect.unreachable() }),
      'object without a JSON form',
    ],
  ])('whatever was thrown is logged: %s', async (_what, error, shown) => {
    const { log, chunks } = collectedLog();
    log.error('internal error', { tool: 'x', error });
    await log.flush();
    expect(JSON.parse(chunks.join(''))).toMatchObject({ tool: 'x', error: shown });
  });

  test('of a long error the beginning and the end are logged, and no half of a secret', async () => {
    const { log, chunks } = collectedLog();
    const key = `sk_live_${'a1'.repeat(32)}`;
    const quoted = `${'x'.repeat(16_340)} ${key}${' y'.repeat(5_000_000)} ${key} ${'z'.repeat(16_300)}`;
    for (const error of [new Error(quoted), quoted]) log.error('internal error', { error });
    await log.flush();
    const [ofError = '', ofText = ''] = chunks.join('').trim().split('\n');
    for (const line of [ofError, ofText]) {
      expect(line.length).toBeLessThan(34_000);
      expect(line).not.toContain('a1a1');
      expect(JSON.parse(line).error).toContain('xx');
    }
    expect(JSON.parse(ofError).error).toStartWith('Error: xx');
    expect(JSON.parse(ofError).error).toMatch(/z\n\s+at .*log\.test\.ts/s);
  });

  test('of a long error that is full of secrets none is logged, nor half of one', async () => {
    const { log, chunks } = collectedLog();
    const key = `sk_live_${'a1'.repeat(32)}`;
    const token = `eyJhbGciOiJIUzI1NiJ9.${'b2'.repeat(200)}.${'b2'.repeat(30)}`;
    const hash = 'c3'.repeat(32);
    for (const secret of [key, token, hash]) {
      for (let shift = 0; shift < 70; shift += 23) {
        log.error('internal error', { error: `of ${`${secret} `.repeat(1000)}${'z'.repeat(shift)}` });
      }
    }
    await log.flush();
    const lines = chunks.join('').trim().split('\n');
    for (const line of lines) {
      expect(line.length).toBeLessThan(34_000);
      expect(line).not.toMatch(/a1a1|b2b2|c3c3/);
      expect(JSON.parse(line).error).toStartWith('of [redacted] [redacted] ');
    }
  });

  test('a hash is cut out after a line break or another control character too, and the line stays JSON', async () => {
    const { log, chunks } = collectedLog();
    const hash = '0f'.repeat(32);
    log.error('internal error', { error: new Error(`bad hash:\n${hash}`) });
    log.warn('tool failed', {
      nested: [`\t${hash}`, `\b${hash}`, `\u001f${hash}`, `\b${hash.slice(1)}`, `\f${hash.slice(1)}`],
    });
    await log.flush();
    const [first, second] = chunks.join('').trim().split('\n');
    expect(JSON.parse(first ?? '').error).toStartWith('Error: bad hash:\n[redacted]\n');
    expect(JSON.parse(second ?? '').nested).toEqual([
      '\t[redacted]',
      '\b[redacted]',
      '\u001f[redacted]',
      `\b${hash.slice(1)}`,
      `\f${hash.slice(1)}`,
    ]);
  });

  test.each([
    ['of one byte', 'x'.repeat(100_000)],
    ['of three bytes', '€'.repeat(33_000)],
  ])(
    'a reader that does not read costs bounded memory: lines, in characters %s, are dropped and counted',
    async (_, text) => {
      const written: string[] = [];
      let release: () => void = () => {};
      const stuck = new Promise<void>((resolve) => {
        release = resolve;
      });
      const log = createLog({
        level: 'info',
        clock: systemClock,
        write: async (chunk) => {
          await stuck;
          written.push(new TextDecoder().decode(chunk));
        },
      });
      for (let line = 0; line < 200; line += 1) log.info('request', { text });
      release();
      await log.flush();
      await log.flush();
      const bytes = written.reduce((sum, chunk) => sum + Buffer.byteLength(chunk), 0);
      expect(bytes).toBeLessThan(9 * 1024 * 1024);
      const lines = written.join('').trim().split('\n');
      const told = lines.map((line) => JSON.parse(line)).find(({ event }) => event === 'log lines dropped');
      expect(told.count + lines.length - 1).toBe(200);
    },
  );

  test('lines that a full disk has lost are counted, and told once there is room again', async () => {
    const written: string[] = [];
    let isFull = true;
    const write = async (chunk: Uint8Array) => {
      if (isFull) throw new Error('ENOSPC');
      written.push(new TextDecoder().decode(chunk));
    };
    const log = createLog({ level: 'info', clock: systemClock, write });
    for (const lines of [2, 1]) {
      for (let line = 0; line < lines; line += 1) log.info('request');
      await log.flush();
    }
    expect(written).toEqual([]);
    isFull = false;
    log.info('stopping');
    await log.flush();
    await log.flush();
    const lines = written.join('').trim().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ event: 'stopping' }),
      expect.objectContaining({ event: 'log lines dropped', count: 3 }),
    ]);
  });

  test('a closed reader hurts nobody', async () => {
    const log = createLog({
      level: 'info',
      clock: systemClock,
      write: () => Promise.reject(new Error('EPIPE')),
    });
    log.info('stopping');
    await log.flush();
    log.info('stopped');
    await log.flush();
  });
});
