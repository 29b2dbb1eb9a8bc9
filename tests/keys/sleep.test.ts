// Revocation across a machine's sleep, in which the monotonic clock and every timer stand still, and across steps of the
// wall clock, which look the same from inside.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { rows } from '../support/everything.ts';
import { call, post } from '../support/mcp.ts';
import { startProxy } from '../support/proxy.ts';
import { STORE_MODES, startStore, storeOn } from '../support/store-mode.ts';
import { startPrimary } from '../support/template.ts';
import { bearer, createTestApp } from '../support/test-app.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const HOUR_MS = 3_600_000;
/** With this bound no poll comes by itself while a test runs. */
const LAG_MAX_MS = 60_000;
const env = { REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) };

describe.each(rows(STORE_MODES, 1))('%s', (mode) => {
  test('a key that was revoked elsewhere during a sleep is refused at once', async () => {
    await using store = await startStore(mode);
    await using elsewhere = await createTestApp({ store });
    await using here = await createTestApp({ store, env });
    const { id, key } = await elsewhere.createKey('alice');
    const { key: good } = await elsewhere.createKey('alice');
    expect([(await here.useKey(key)).status, (await here.useKey(good)).status]).toEqual([200, 200]);
    await elsewhere.call('revoke_api_key', { keyId: id }, await bearer(elsewhere, 'alice'));
    here.clock.sleep(LAG_MAX_MS);
    expect([(await here.useKey(key)).status, (await here.useKey(good)).status]).toEqual([401, 200]);
  });

  test('after a sleep a key is 503 while the store is still away, and never accepted', async () => {
    await using here = await createTestApp({ store: mode, env });
    const { key } = await here.createKey('alice');
    expect((await here.useKey(key)).status).toBe(200);
    await here.loseStore();
    expect((await here.useKey(key)).status).toBe(200); // within the bound
    here.clock.sleep(LAG_MAX_MS);
    expect((await here.useKey(key)).status).toBe(503);
  });

  test('a wall clock that is set back prolongs nothing, not even with a sleep after it', async () => {
    await using store = await startStore(mode);
    await using elsewhere = await createTestApp({ store });
    const alice = await bearer(elsewhere, 'alice');
    await using here = await createTestApp({ store, env });
    for (const pass of [here.clock.advance, here.clock.sleep]) {
      const { id, key } = await elsewhere.createKey('alice');
      expect((await here.useKey(key)).status).toBe(200);
      here.clock.setNow(here.clock.nowMs() - HOUR_MS);
      expect((await here.useKey(key)).status).toBe(200);
      await elsewhere.call('revoke_api_key', { keyId: id }, alice);
      pass(LAG_MAX_MS);
      expect((await here.useKey(key)).status).toBe(401);
    }
  });
});

test('a wall clock that is set forward costs one poll, and one that is set back none; no caller sees either', async () => {
  await using sqld = await startPrimary();
  await using proxy = await startProxy(sqld.url);
  await using app = await createTestApp({ store: storeOn({ ...sqld.env, DATABASE_URL: proxy.url }), env });
  const { key } = await app.createKey('alice');
  const useIt = async () => {
    const rest = Array.from({ length: 10 }, async () => (await app.useKey(key)).status);
    const mcp = await post(app, call('get_data'), { 'x-api-key': key });
    return [...(await Promise.all(rest)), mcp.body.result?.isError ?? false];
  };
  const good = [...Array.from({ length: 10 }, () => 200), false];
  expect(await useIt()).toEqual(good);
  for (const [stepMs, statements] of [
    [100, 0],
    [LAG_MAX_MS, 1],
    [-HOUR_MS, 0],
    [HOUR_MS, 2], // the record is too old as well
  ] as const) {
    const before = proxy.statements();
    app.clock.setNow(app.clock.nowMs() + stepMs);
    expect(await useIt()).toEqual(good);
    expect({ stepMs, statements: proxy.statements() - before }).toEqual({ stepMs, statements });
  }
});
