// A key that is over its limit or quota, over each way to call and each revision of MCP: refused in-band, never as a bad key.

import { expect, test } from 'bun:test';
import { testClock } from '../support/clock.ts';
import { type Ask, call, post, postModern, request, WAYS } from '../support/mcp.ts';
import { bearer, createTestApp } from '../support/test-app.ts';

const LIMITS = [
  ['rate_limited', { rateLimit: { requests: 1, window: '1h' } }, 'Rate limit exceeded; try again later', 3600],
  [
    'quota_exceeded',
    { quota: { requests: 1, period: 'day' } },
    'The quota of this API key is used up; try again when its period is over',
    86_400,
  ],
] as const;

const of =
  (revision: string): Ask =>
  (app, method, params, headers) =>
    WAYS.legacy(app, method, params, { ...headers, 'mcp-protocol-version': revision });

test.each(LIMITS)('%s is a result over each way, with the time to wait', async (code, limits, sentence, waitS) => {
  await using app = await createTestApp({
    clock: testClock(Date.UTC(2026, 0, 2)),
    env: { RATE_LIMIT_REQUESTS: '0' },
  });
  const older = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'].map(of);
  for (const ask of [...Object.values(WAYS), ...older]) {
    const { key } = await app.createKey('alice', limits);
    const use = async () =>
      (await ask(app, 'tools/call', { name: 'get_data', arguments: {} }, { 'x-api-key': key })).result;
    expect(await use()).not.toHaveProperty('isError');
    expect(await use()).toMatchObject({
      isError: true,
      content: [
        { type: 'text', text: sentence },
        { type: 'text', text: `Try again in ${waitS} s` },
      ],
    });
    const rest = await app.useKey(key);
    expect([rest.status, rest.body.code]).toEqual([429, code]);
  }
});

test('the headers say what is left, of a result and of a refusal, in both eras', async () => {
  await using app = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '0' } });
  for (const [code, limits] of LIMITS) {
    const { key } = await app.createKey('alice', limits);
    const headers = { 'x-api-key': key };
    const responses = [
      await post(app, call('get_data'), headers),
      await post(app, call('get_data'), headers),
      await postModern(app, 'tools/call', { name: 'get_data', arguments: {} }, { headers }),
    ];
    for (const { status, headers } of responses) {
      expect(status).toBe(200);
      expect(headers.get('ratelimit')).toStartWith(`"${code === 'rate_limited' ? 'key' : 'quota'}";r=0;`);
    }
  }
});

test('a call that is refused before its key is looked at states the whole limit, as over REST', async () => {
  const connect = { OAUTH_REDIRECTS: 'loopback' };
  for (const env of [{}, connect, { ...connect, MCP_AUTH: 'lazy' }]) {
    await using app = await createTestApp({ env });
    const { key, id } = await app.createKey('alice');
    await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'alice'));
    const ended = { 'x-api-key': key };
    const good = { 'x-api-key': (await app.createKey('alice')).key };
    const refused = [
      await post(app, call('get_data', []), good),
      await post(app, call('get_data', []), ended),
      await post(app, call('get_data'), ended),
      await post(app, call('get_data', {}, { _meta: { progressToken: 0 } }), ended),
      await postModern(app, 'tools/call', { name: 'get_data', requestState: 7 }, { headers: good }),
      await post(app, call('get_data')),
      await post(app, call('get_data'), { authorization: `Bearer ${key}` }),
    ];
    expect(refused.map(({ headers }) => headers.get('ratelimit'))).toEqual(refused.map(() => '"key";r=1000;t=3600'));
    const others = [request('tools/list'), call('no_tool'), [call('get_data')]];
    for (const body of others) expect((await post(app, body, ended)).headers.get('ratelimit')).toBeNull();
    expect((await post(app, request('tools/list'), good)).headers.get('ratelimit')).toBeNull();
    expect((await post(app, call('get_data'))).headers.has('www-authenticate')).toBe('OAUTH_REDIRECTS' in env);
  }
});
