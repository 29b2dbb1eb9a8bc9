// A key that is over its limit or quota, over each way to call and each revision of MCP: refused in-band, never as a bad key.

import { expect, test } from 'bun:test';
import { testClock } from '../support/clock.ts';
import { call, openSse, post, postModern } from '../support/mcp.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';

const LIMITS = [
  ['rate_limited', { rateLimit: { requests: 1, window: '1h' } }, 'Try again in 3600 s'],
  ['quota_exceeded', { quota: { requests: 1, period: 'day' } }, 'Try again in 86400 s'],
] as const;
const REVISIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

type Caller = (app: TestApp, key: string) => Promise<{ result: object; headers: Headers | null }>;

const overMcp =
  (revision: string): Caller =>
  async (app, key) => {
    const headers = { 'x-api-key': key, 'mcp-protocol-version': revision };
    const response = await post(app, call('get_data'), headers);
    expect(response.status).toBe(200);
    return { result: response.body.result, headers: response.headers };
  };

const overModern: Caller = async (app, key) => {
  const response = await postModern(
    app,
    'tools/call',
    { name: 'get_data', arguments: {} },
    { headers: { 'x-api-key': key } },
  );
  expect(response.status).toBe(200);
  return { result: response.body.result, headers: response.headers };
};

const overSse: Caller = async (app, key) => {
  const session = await openSse(app, { 'x-api-key': key });
  await session.post(call('get_data'));
  const { result } = await session.nextMessage();
  await session.drop();
  return { result, headers: null };
};

const WAYS: readonly [string, Caller][] = [
  ...REVISIONS.map((revision): [string, Caller] => [`/mcp of ${revision}`, overMcp(revision)]),
  ['/mcp of 2026-07-28', overModern],
  ['/sse', overSse],
];

test.each(WAYS)(
  '%s refuses a key that is over its limit or its quota, in-band and with the time to wait',
  async (_, callOver) => {
    await using app = await createTestApp({
      clock: testClock(Date.UTC(2026, 0, 2)),
      env: { RATE_LIMIT_REQUESTS: '0' },
    });
    for (const [code, limits, wait] of LIMITS) {
      const { key } = await app.createKey('alice', limits);
      const first = await callOver(app, key);
      expect([code, first.result]).toEqual([code, expect.not.objectContaining({ isError: true })]);
      const over = await callOver(app, key);
      expect(over.result).toMatchObject({ isError: true, content: [{ type: 'text' }, { type: 'text', text: wait }] });
      const name = code === 'quota_exceeded' ? 'quota' : 'key';
      for (const { headers } of [first, over]) {
        if (headers !== null) expect(headers.get('ratelimit')).toStartWith(`"${name}";r=0;`);
      }
      const rest = await app.useKey(key);
      expect([rest.status, rest.body.code]).toEqual([429, code]);
    }
  },
);
