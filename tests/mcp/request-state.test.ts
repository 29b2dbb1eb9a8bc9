// requestState: what a client carries from one round of a call to the next, and may not change, lend or keep.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { StoreOutage } from '../../src/ground/result.ts';
import { createRequestStates } from '../../src/mcp/request-states.ts';
import { defineTool, err, ok } from '../../src/start/package/index.ts';
import { ALICE, keyOf, output, payloadOf, person, round, serveAsking } from '../support/asking.ts';
import { testClock } from '../support/clock.ts';
import { shared } from '../support/shared.ts';
import { bearer, createTestApp } from '../support/test-app.ts';
import { anyone, facts } from '../support/tools.ts';

const TTL_MS = 10 * 60 * 1000;

const app = await shared(serveAsking({ LOG_LEVEL: 'debug' }));
const headers = await keyOf(app);

describe('a state is refused with -32602', () => {
  const good = { arguments: { city: 'Rome' }, inputResponses: { who: ALICE } };

  test.each([
    ['with a changed payload', (state: string) => state.replace(/^./, (first) => (first === 'e' ? 'f' : 'e'))],
    ['with a changed signature', (state: string) => state.replace(/.$/, (last) => (last === '0' ? '1' : '0'))],
    ['with a signature in capitals', (state: string) => state.replace(/\.\w+$/, (text) => text.toUpperCase())],
    ['with something after it', (state: string) => `${state}-TAMPERED`],
    ['without a signature', (state: string) => state.split('.')[0] ?? ''],
    ['with padding', (state: string) => state.replace('.', '=.')],
    ['that is empty', () => ''],
    ['of another form', () => 'sk_test_secret'],
    ['that is no string', () => 7 as unknown as string],
    ['that is null', () => null as unknown as string],
  ])('%s', async (_what, change) => {
    const { state } = await round(app, 'ask', { headers, params: { arguments: { city: 'Rome' } } });
    const params = { ...good, requestState: change(state) };
    const { status, error } = await round(app, 'ask', { headers, params });
    expect([status, error.code]).toEqual([200, -32602]);
    expect(error.message).not.toContain('sk_test_secret');
  });

  test('the state of another caller, tool or input is refused', async () => {
    const { state: requestState } = await round(app, 'ask', { headers, params: { arguments: { city: 'Rome' } } });
    const bob = await keyOf(app, 'bob');
    const second = await keyOf(app); // a key is a caller, not its owner
    const rounds = [
      round(app, 'ask', { headers: bob, params: { ...good, requestState } }),
      round(app, 'ask', { headers: second, params: { ...good, requestState } }),
      round(app, 'other', { headers, params: { ...good, requestState } }),
      round(app, 'ask', { headers, params: { ...good, arguments: { city: 'Bern' }, requestState } }),
      round(app, 'ask', { headers, params: { ...good, arguments: { title: 'Rome' }, requestState } }),
    ];
    expect((await Promise.all(rounds)).map(({ error }) => error?.code)).toEqual(rounds.map(() => -32602));
    const right = await round(app, 'ask', { headers, params: { ...good, requestState } });
    expect(right.result.resultType).toBe('complete');
  });

  test('the state of another user is refused; a newer token of the same user is accepted', async () => {
    const { state } = await round(app, 'mine', { headers: await bearer(app, 'alice') });
    const params = { inputResponses: { who: ALICE }, requestState: state };
    expect((await round(app, 'mine', { headers: await bearer(app, 'bob'), params })).error.code).toBe(-32602);
    app.clock.advance(1000);
    const { result } = await round(app, 'mine', { headers: await bearer(app, 'alice'), params });
    expect(result.structuredContent.answers).toEqual({ who: ALICE });
  });

  test('a state ten minutes old is refused; until then it can be repeated', async () => {
    const { state } = await round(app, 'ask', { headers });
    const params = { inputResponses: { who: ALICE }, requestState: state };
    const codes: unknown[] = [];
    for (const afterMs of [0, TTL_MS - 1, 1]) {
      app.clock.advance(afterMs);
      const { result, error } = await round(app, 'ask', { headers, params });
      codes.push(result?.resultType ?? error.code);
    }
    expect(codes).toEqual(['complete', 'complete', -32602]);
  });
});

test('a state is of the input as it was sent, whatever the schema makes of it', async () => {
  const day = v.pipe(
    v.string(),
    v.transform((text) => new Date(text)),
  );
  const dated = defineTool(anyone, {
    ...facts('dated'),
    input: v.strictObject({ day }),
    output,
    run({ day }, call) {
      const asked = call.ask({ who: person('Who are you?') });
      return asked.ok ? ok({ answers: day.toISOString().slice(0, 10) }) : asked;
    },
  });
  await using own = await createTestApp({ tools: () => [dated] });
  const { state } = await round(own, 'dated', { headers: {}, params: { arguments: { day: '2026-01-01' } } });
  const answered = (day: string) =>
    round(own, 'dated', {
      headers: {},
      params: { arguments: { day }, inputResponses: { who: ALICE }, requestState: state },
    });
  expect((await answered('2026-01-01')).result.structuredContent.answers).toBe('2026-01-01');
  expect((await answered('2026-01-02')).error.code).toBe(-32602);
});

test('the order of the fields of an input does not matter', async () => {
  const { state } = await round(app, 'ask', { headers, params: { arguments: { title: 'a', city: 'b' } } });
  const params = { arguments: { city: 'b', title: 'a' }, inputResponses: { who: ALICE }, requestState: state };
  expect((await round(app, 'ask', { headers, params })).result.resultType).toBe('complete');
});

describe('the secret that signs states', () => {
  const states = (secret: string, clock = testClock()) =>
    createRequestStates({ readSecret: async () => secret, databaseId: () => 'd' }, clock);

  test('a state signed with the secret of another database is refused', async () => {
    const sealed = await states('a').seal('subject', { who: ALICE });
    expect(await states('a').open('subject', sealed)).toEqual(ok({ who: ALICE }));
    expect(await states('b').open('subject', sealed)).toEqual(err({ code: 'invalid_state' }));
  });

  test('the signing secret is read once, again after a failure, and again when the database was replaced', async () => {
    let reads = 0;
    let databaseId = 'first';
    const readSecret = async () => {
      if (reads++ === 0) throw new StoreOutage('away');
      return databaseId;
    };
    const { seal } = createRequestStates({ readSecret, databaseId: () => databaseId }, testClock());
    await expect(seal('s', {})).rejects.toThrow('away');
    const before = [await seal('s', {}), await seal('s', {})];
    expect([reads, before[0]]).toEqual([2, before[1]]);
    databaseId = 'second';
    expect(await seal('s', {})).not.toEqual(before[0]);
    expect(reads).toBe(3);
  });

  test('the signing secret is neither in a state nor in the log', async () => {
    const { state } = await round(app, 'ask', { headers });
    expect(Object.keys(payloadOf(state))).toEqual(['expiresAtMs', 'responses']);
    expect(await app.logText()).not.toContain(state);
  });
});
