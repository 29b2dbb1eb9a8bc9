// What was decided before the machine slept, or before the tool took its time, on every way that it can leave: with the
// revocation bound behind it, it leaves only if the key is still good, and the owner of a user token isn't blocked.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, err, failure, ok } from '../../src/start/package/index.ts';
import { databaseOf, executeAt } from '../support/database-client.ts';
import { type Ask, call, eventReader, fetchMcp, post, request, WAYS } from '../support/mcp.ts';
import { startProxy } from '../support/proxy.ts';
import { storeOn } from '../support/store-mode.ts';
import { startPrimary } from '../support/template.ts';
import { bearer, createTestApp, insertKey, type Json, type TestApp } from '../support/test-app.ts';
import { facts } from '../support/tools.ts';
import { advanceUntil } from '../support/wait-for.ts';

/** Less than a tool may take, and than a stream may stay quiet. */
const LAG_MAX_MS = 8000;

interface Started extends AsyncDisposable {
  readonly app: TestApp;
  readonly key: string;
  /** What happens while `slow` runs. */
  during: () => unknown;
  /** Revokes the key behind the app's back. */
  revoke(): Promise<void>;
}

/**
 * An app with `slow`, which reports progress, `quick`, which responds at once, `failing` and `telling`, `for_users` and
 * `for_both`.
 */
async function start(): Promise<Started> {
  const schema = { input: v.strictObject({}), output: v.strictObject({ done: v.boolean() }) };
  const app = await createTestApp({
    store: 'embedded',
    env: { REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) },
    tools: ({ guards }) => [
      defineTool(guards.apiKey, {
        ...facts('slow'),
        ...schema,
        async run(_input, { progress }) {
          progress(1);
          await started.during();
          return ok({ done: true });
        },
      }),
      defineTool(guards.apiKey, { ...facts('quick'), ...schema, run: () => ok({ done: true }) }),
      defineTool(guards.apiKey, {
        ...facts('failing'),
        ...schema,
        async run() {
          await started.during();
          return err(failure({ status: 409, code: 'out_of_stock', detail: 'Three are left of it' }));
        },
      }),
      defineTool(guards.apiKey, {
        ...facts('telling'),
        ...schema,
        async run(_input, { progress }) {
          progress(1, 4, 'before');
          await started.during();
          progress(2, 4, 'held');
          progress(3, 4, 'latest');
          await Bun.sleep(50); // more than the look takes: what it lets through would have left by now
          return ok({ done: true });
        },
      }),
      defineTool(
        // As an operator may write it: the compiler refuses both in a sequence.
        async (call) => {
          const user = await guards.userJwt(call);
          return user.ok ? guards.apiKey(call) : user;
        },
        {
          ...facts('for_both'),
          ...schema,
          async run() {
            await started.during();
            return ok({ done: true });
          },
        },
      ),
      defineTool(guards.userJwt, {
        ...facts('for_users'),
        ...schema,
        async run() {
          await started.during();
          return ok({ done: true });
        },
      }),
    ],
  });
  const key = await insertKey(app, 'alice');
  const started: Started = {
    app,
    key,
    during: () => {},
    async revoke() {
      await executeAt(databaseOf(app), 'UPDATE api_keys SET active = 0');
    },
    [Symbol.asyncDispose]: app.close,
  };
  return started;
}

type Outcome = 'success' | 'refused' | 'later';

function inBand({ result }: Json): Outcome {
  if (result.isError !== true) return 'success';
  const [{ text }] = result.content;
  return text === 'Invalid or expired API key' ? 'refused' : text.startsWith('The key store is out') ? 'later' : text;
}

const OF_STATUS: Record<number, Outcome> = { 200: 'success', 401: 'refused', 503: 'later' };

type Use = (started: Started) => Promise<readonly (Outcome | undefined)[]>;

const rest: Use = async ({ app, key }) => [OF_STATUS[(await app.call('slow', {}, { 'x-api-key': key })).status]];
const over =
  (ask: Ask): Use =>
  async ({ app, key }) => [inBand(await ask(app, 'tools/call', { name: 'slow' }, { 'x-api-key': key }))];

const WAYS_OUT: readonly [string, Use][] = [
  ['REST', rest],
  ['/mcp until 2025', over(WAYS.legacy)],
  ['/mcp 2026-07-28', over(WAYS.modern)],
  [
    'a batch, in which the first call was done before',
    async ({ app, key }) => {
      const batch = [call('quick'), { ...call('slow'), id: 2 }, request('ping', {}, 3)];
      const { body } = await post(app, batch, { 'x-api-key': key });
      expect(body).toHaveLength(3);
      return body.slice(0, 2).map(inBand);
    },
  ],
  [
    'a stream with progress',
    async ({ app, key }) => {
      const body = call('slow', {}, { _meta: { progressToken: 'p' } });
      const response = await fetchMcp(app, body, { 'x-api-key': key });
      expect(response.headers.get('content-type')).toBe('text/event-stream');
      const events = await eventReader(response.body as ReadableStream<Uint8Array>).rest();
      return [inBand(JSON.parse(events.at(-1)?.data ?? ''))];
    },
  ],
  ['/sse', over(WAYS.sse)],
];

const endAndSleep = async ({ app, revoke }: Started) => {
  await revoke();
  app.clock.sleep(LAG_MAX_MS);
};

test.each(WAYS_OUT)('%s: after a sleep, one use of a good key, none of one revoked elsewhere', async (_, use) => {
  await using started = await start();
  const { app, key } = started;
  const calledAtMs = app.clock.nowMs();
  started.during = () => app.clock.sleep(LAG_MAX_MS);
  const responses = await use(started);
  for (const seen of responses) expect(seen).toBe('success');
  const lastUse = async () => JSON.parse(await app.keys('list', '--json')).lastUsedAt;
  await advanceUntil(app.clock, async () => (await lastUse()) !== null, 1000);
  expect(Date.parse(await lastUse())).toBe(calledAtMs);
  const { headers } = await app.call('quick', {}, { 'x-api-key': key });
  expect(headers.get('ratelimit')).toStartWith(`"key";r=${1000 - responses.length - 1};`);
  started.during = () => endAndSleep(started);
  for (const seen of await use(started)) expect(seen).toBe('refused');
});

test('a tool that took longer than the bound, and the key was revoked elsewhere: refused', async () => {
  await using started = await start();
  started.during = async () => {
    await started.revoke();
    started.app.clock.advance(LAG_MAX_MS);
  };
  expect(await rest(started)).toEqual(['refused']);
});

test.each(WAYS_OUT)('%s: each call says so if the store is away by then', async (_, use) => {
  await using started = await start();
  started.during = async () => {
    await started.app.loseStore();
    started.app.clock.sleep(LAG_MAX_MS);
  };
  for (const seen of await use(started)) expect(seen).toBe('later');
});

test('a call that ends within the bound is not verified again', async () => {
  await using started = await start();
  started.during = async () => {
    await started.revoke();
    started.app.clock.advance(LAG_MAX_MS - 26);
  };
  expect((await started.app.call('slow', {}, { 'x-api-key': started.key })).status).toBe(200);
});

test('a refusal after the call is logged like one before it', async () => {
  await using started = await start();
  const { app, key } = started;
  started.during = () => endAndSleep(started);
  const { body } = await app.call('slow', {}, { 'x-api-key': key });
  const lines = (await app.log()).filter(({ requestId }) => requestId === body.requestId);
  expect(lines).toMatchObject([
    { event: 'API key authentication successful' },
    { event: 'Invalid or expired API key', reason: 'revoked', userId: 'alice' },
  ]);
});

describe('what leaves beside results', () => {
  test.each(['over REST', 'in a batch'])('a failure in the words of a tool, %s', async (way) => {
    await using started = await start();
    const { app, key } = started;
    async function failing(): Promise<string> {
      if (way === 'over REST') return (await app.call('failing', {}, { 'x-api-key': key })).body.detail;
      const { body } = await post(app, [call('failing')], { 'x-api-key': key });
      return body[0].result.content[0].text;
    }
    expect(await failing()).toBe('Three are left of it');
    started.during = () => endAndSleep(started);
    expect(await failing()).toBe('Invalid or expired API key');
  });

  test('progress: the latest is held until the key is verified again, and none leaves after its end', async () => {
    const told = async (during: (started: Started) => unknown) => {
      await using started = await start();
      started.during = () => during(started);
      const body = call('telling', {}, { _meta: { progressToken: 'p' } });
      const response = await fetchMcp(started.app, body, { 'x-api-key': started.key });
      const events = await eventReader(response.body as ReadableStream<Uint8Array>).rest();
      return events.flatMap(({ data }) => JSON.parse(data).params?.message ?? []);
    };
    expect(await told(() => {})).toEqual(['before', 'held', 'latest']);
    expect(await told(({ app }) => app.clock.sleep(LAG_MAX_MS))).toEqual(['before', 'latest']);
    expect(await told(endAndSleep)).toEqual(['before']);
  });

  test('a result for a user whose owner was blocked', async () => {
    await using started = await start();
    const { app } = started;
    const headers = await bearer(app, 'bob');
    const statusOf = async () => (await app.call('for_users', {}, headers)).status;
    started.during = () => app.clock.sleep(LAG_MAX_MS);
    expect(await statusOf()).toBe(200);
    started.during = async () => {
      await app.keys('block', 'bob');
      app.clock.sleep(LAG_MAX_MS);
    };
    expect(await statusOf()).toBe(403);
  });

  test('a result under a key and a user token: both are verified again', async () => {
    const statusAfter = async (during: (started: Started) => unknown) => {
      await using started = await start();
      const { app, key } = started;
      started.during = () => during(started);
      return (await app.call('for_both', {}, { ...(await bearer(app, 'bob')), 'x-api-key': key })).status;
    };
    expect(await statusAfter(({ app }) => app.clock.sleep(LAG_MAX_MS))).toBe(200);
    expect(await statusAfter(endAndSleep)).toBe(401);
    const blockAndSleep = async ({ app }: Started) => {
      await app.keys('block', 'bob');
      app.clock.sleep(LAG_MAX_MS);
    };
    expect(await statusAfter(blockAndSleep)).toBe(403);
  });

  test('a first use, proved by no poll that came after its read', async () => {
    const READ = 'presented_hash';
    await using sqld = await startPrimary();
    await using proxy = await startProxy(sqld.url);
    const env = { REVOCATION_LAG_MAX_MS: '4000' };
    await using elsewhere = await createTestApp({ store: storeOn(sqld.env), env });
    const [{ id }, other] = [await elsewhere.createKey('alice'), await elsewhere.createKey('bob')];
    const alice = await bearer(elsewhere, 'alice');
    const next = (await elsewhere.call('rotate_api_key', { keyId: id }, alice)).body.key;
    await using here = await createTestApp({ store: storeOn({ ...sqld.env, DATABASE_URL: proxy.url }), env });
    const promoted = proxy.delayResponseTo('second_hash = key_hash');
    const pending = here.useKey(next);
    await promoted.made;
    const read = proxy.delayResponseTo(READ); // the one that comes after the secret was put in force
    promoted.release();
    await read.made;
    await elsewhere.call('revoke_api_key', { keyId: id }, alice);
    here.clock.advance(4000);
    expect((await here.useKey(other.key)).status).toBe(200); // polls
    read.release();
    expect((await pending).status).toBe(401);
  });
});
