// Failures in a tool's own words: what callers and the log see of them, and which are bugs.

import { describe, expect, test } from 'bun:test';
import { defineTool, err, type Failure, failure } from '../../src/start/package/index.ts';
import { call, callOverWays, post } from '../support/mcp.ts';
import { sharedApp } from '../support/test-app.ts';
import { anyone, noInput } from '../support/tools.ts';

let invalid: { path: string; message: string }[] = [];
let fails: Failure = { status: 500, code: 'x', detail: 'x' };
const failing = [
  defineTool(anyone, { ...noInput('fail'), run: () => err(failure(fails)) }),
  defineTool(anyone, { ...noInput('refuse'), run: () => err({ code: 'invalid_input', issues: invalid }) }),
  defineTool(anyone, { ...noInput('fail_later'), run: async () => err(failure(fails)) }),
];

const app = await sharedApp({ tools: () => failing });

const SHOP_CLOSED: Failure = { status: 503, code: 'shop_closed', detail: 'The shop is closed', retryAfterS: 90 };

describe('an invalid_input of a tool', () => {
  test.each([
    ['one issue', [{ path: 'id', message: 'No such page' }], 'id: No such page'],
    [
      'several, of the input as a whole too',
      [
        { path: '', message: 'Expected either a or b' },
        { path: 'c.0', message: 'Expected another' },
      ],
      'Expected either a or b; c.0: Expected another',
    ],
    ['none', [], 'The input does not fit the schema of the tool'],
  ])('is in its own words alone, over REST and MCP: %s', async (_what, issues, text) => {
    invalid = issues;
    const { status, body } = await app.call('refuse');
    expect([status, body.code, body.detail, body.issues]).toEqual([400, 'invalid_input', text, issues]);
    for (const { result } of await callOverWays(app, 'refuse')) {
      expect(result).toMatchObject({ content: [{ type: 'text', text }], isError: true });
      expect(result.content).toHaveLength(1);
    }
  });
});

describe('a failure', () => {
  test.each(['fail', 'fail_later'])('is a problem over REST, and a line in the log (%s)', async (tool) => {
    fails = SHOP_CLOSED;
    const { status, headers, body } = await app.call(tool);
    expect([status, headers.get('content-type'), headers.get('retry-after')]).toEqual([
      503,
      'application/problem+json',
      '90',
    ]);
    const { requestId } = body;
    expect(body).toEqual({
      type: 'about:blank',
      title: 'Service Unavailable',
      status: 503,
      detail: 'The shop is closed',
      code: 'shop_closed',
      requestId,
    });
    const { time: _, ...line } = (await app.log()).at(-1) ?? { time: '' };
    expect(line).toEqual({ level: 'warn', event: 'tool failed', requestId, tool, code: 'shop_closed' });
  });

  test('is a result over MCP, with the seconds in a second text', async () => {
    fails = SHOP_CLOSED;
    const text = (text: string) => ({ type: 'text', text });
    for (const { result } of await callOverWays(app, 'fail')) {
      expect([result.isError, result.content]).toEqual([true, [text('The shop is closed'), text('Try again in 90 s')]]);
    }
    fails = { status: 404, code: 'no_such_order', detail: 'There is no such order' };
    const { result } = (await post(app, call('fail'))).body;
    expect(result).toEqual({ content: [text('There is no such order')], isError: true });
  });

  test.each<[number, string]>([
    [400, 'Bad Request'],
    [402, 'Payment Required'],
    [408, 'Client Error'],
    [418, 'Client Error'],
    [499, 'Client Error'],
    [500, 'Internal Server Error'],
    [502, 'Bad Gateway'],
    [599, 'Server Error'],
  ])('may have the status %d, and no credential is asked for', async (status, title) => {
    fails = { status, code: 'x', detail: 'x' };
    const response = await app.call('fail');
    expect([response.status, response.body.title]).toEqual([status, title]);
    expect([response.headers.get('www-authenticate'), response.headers.get('retry-after')]).toEqual([null, null]);
  });

  test('gives no key away, whatever its detail repeats', async () => {
    const key = `sk_test_${'0'.repeat(64)}`;
    fails = { status: 400, code: 'odd_id', detail: `There is no order ${key}` };
    expect((await app.call('fail')).body.detail).toBe('There is no order [redacted]');
    expect(JSON.stringify((await post(app, call('fail'))).body)).not.toContain(key);
    expect(await app.logText()).not.toContain(key);
  });
});

describe('a failure that cannot be reported is a bug of the tool', () => {
  const good: Failure = { status: 503, code: 'x', detail: 'x' };
  test.each<[string, Partial<Record<keyof Failure, unknown>>, string]>([
    ['a status below 400', { status: 399 }, 'expected a status from 400 to 599 except 401 and 407, got 399'],
    ['a status above 599', { status: 600 }, 'got 600'],
    ['no whole status', { status: 400.5 }, 'got 400.5'],
    ['401', { status: 401 }, 'got 401'],
    ['407', { status: 407 }, 'got 407'],
    [
      'a code of the server',
      { code: 'rate_limited' },
      `a code of the tool's own, not one of the server's, got "rate_limited"`,
    ],
    ['the name of a builtin as a code, which is fine', { code: 'constructor' }, ''],
    ['a code in capitals', { code: 'ShopClosed' }, 'expected a code in snake_case of at most 64 characters'],
    ['an empty code', { code: '' }, 'snake_case'],
    ['a code that ends early', { code: 'shop_' }, 'snake_case'],
    ['a code of 64 characters, which is fine', { code: 'x'.repeat(64) }, ''],
    ['a code of 65 characters', { code: 'x'.repeat(65) }, 'snake_case'],
    ['no code', { code: undefined }, 'snake_case'],
    ['no detail', { detail: undefined }, 'expected a detail of 1 to 1000 characters'],
    ['an empty detail', { detail: '' }, 'detail'],
    ['a detail of 1,000 characters, which is fine', { detail: 'x'.repeat(1000) }, ''],
    ['a detail of 1,001 characters', { detail: 'x'.repeat(1001) }, 'detail'],
    [
      'seconds with another status',
      { status: 502, retryAfterS: 1 },
      'retryAfterS: expected it only with the status 429 or 503',
    ],
    ['seconds with 429, which is fine', { status: 429, retryAfterS: 0 }, ''],
    ['a part of a second', { retryAfterS: 0.5 }, 'retryAfterS: expected a whole number of seconds, got 0.5'],
    ['seconds below zero', { retryAfterS: -1 }, 'got -1'],
    ['seconds without end', { retryAfterS: Number.POSITIVE_INFINITY }, 'got Infinity'],
  ])('%s', async (_what, part, message) => {
    fails = { ...good, ...part } as Failure;
    const { status, body } = await app.call('fail');
    const line = (await app.log()).findLast(({ requestId }) => requestId === body.requestId);
    if (message === '') return expect([status, line?.event]).toEqual([fails.status, 'tool failed']);
    expect([status, body.code, line?.level, line?.event]).toEqual([500, 'internal', 'error', 'internal error']);
    expect(line?.error).toContain(`failure: `);
    expect(line?.error).toContain(message);
  });
});
