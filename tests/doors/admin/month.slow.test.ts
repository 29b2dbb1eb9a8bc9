// A month of three servers, of which each day one is stopped in order and started anew: keys are made, used, rotated, revoked
// and deleted, have children, and services tell of uses. `keys usage` is then what a model says, to the unit, by owner and by key.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { childOf } from '../../support/children.ts';
import { testClock } from '../../support/clock.ts';
import { everything, rows } from '../../support/everything.ts';
import { jsonLines, keysCommand } from '../../support/keys-command.ts';
import { seeded } from '../../support/model-user.ts';
import { changesOf, leaseOf, serviceOf } from '../../support/service.ts';
import { STORE_MODES, startStore, storeOn } from '../../support/store-mode.ts';
import { bearer, createTestApp, type TestApp } from '../../support/test-app.ts';

setDefaultTimeout(600_000); // a month, on machines that do other things too

const DAY_MS = 86_400_000;
const DAYS = 31;
const ACTIONS_A_DAY = everything ? 40 : 15;
const OWNERS = 50;
/** From a first use to the end of its exchange. */
const EXCHANGED_MS = 4000;

/** How often the database is looked at for counts that must come. */
const LOOKS_MAX = 100;

interface Key {
  readonly id: string;
  readonly owner: string;
  key: string;
  units: number;
}

test.each(rows(STORE_MODES, 1))('what a month cost (%s)', async (mode) => {
  const random = seeded(31);
  const below = (count: number) => Math.floor(random() * count);
  await using store = await startStore(mode);
  const clock = testClock(Date.now() - (DAYS - 1) * DAY_MS);
  const env = { RATE_LIMIT_REQUESTS: '0', USER_RATE_LIMIT: '0' };
  const start = () => createTestApp({ store: storeOn(store.env()), clock, env });
  const apps = [await start(), await start(), await start()];
  const one = () => apps[below(apps.length)] as TestApp;
  const service = await serviceOf(one());
  const keys: Key[] = [];
  /** Units of deleted keys, by owner. */
  const ended = new Map<string, number>();

  const call = async (tool: string, { owner, id: keyId }: Key, input = {}) => {
    const app = one();
    const { status, body } = await app.call(tool, { keyId, ...input }, await bearer(app, owner));
    expect({ tool, status }).toEqual({ tool, status: 200 });
    return body;
  };
  async function use(key: string, times: number): Promise<number> {
    const responses = await Promise.all(Array.from({ length: times }, () => one().useKey(key)));
    expect(responses.map(({ status }) => status)).toEqual(Array(times).fill(200));
    return times;
  }
  const ACTIONS: Readonly<Record<string, (key: Key) => Promise<unknown>>> = {
    async use(key) {
      key.units += await use(key.key, 1 + below(9));
    },
    async rotate(key) {
      key.key = (await call('rotate_api_key', key, { overlapHours: 0 })).key;
      key.units += await use(key.key, 1 + below(3));
    },
    async 'use by a child'(key) {
      const child = await childOf(one(), key.key);
      key.units += await use(child.key, 1 + below(5));
    },
    async tell(key) {
      const { body } = await leaseOf(one(), service, key.key);
      const told = 1 + below(1000);
      expect((await changesOf(one(), service, { used: `${body.tell}:${told}` })).status).toBe(200);
      key.units += 1 + told; // a question is a use, too
    },
    async revoke(key) {
      await call('revoke_api_key', key);
      keys.splice(keys.indexOf(key), 1);
      revoked.push(key);
    },
    async delete(key) {
      await settled();
      await call('delete_api_key', key);
      keys.splice(keys.indexOf(key), 1);
      ended.set(key.owner, (ended.get(key.owner) ?? 0) + key.units);
    },
  };
  const revoked: Key[] = [];
  const kinds = Object.keys(ACTIONS);

  const usage = async (by: string) =>
    jsonLines(await keysCommand(store.env(), ['usage', '--days', String(DAYS + 1), '--by', by, '--json']));
  const expected = () => {
    const byKey = [...keys, ...revoked].filter(({ units }) => units > 0);
    const byOwner = new Map(ended);
    for (const { owner, units } of byKey) byOwner.set(owner, (byOwner.get(owner) ?? 0) + units);
    const ofDeleted = [...ended].filter(([, units]) => units > 0);
    return {
      owner: Object.fromEntries([...byOwner].filter(([, units]) => units > 0).sort()),
      key: Object.fromEntries([...byKey.map(({ id, units }) => [id, units]), ...ofDeleted].sort()),
    };
  };
  const billed = async () => ({
    owner: Object.fromEntries((await usage('owner')).map(({ owner, units }) => [owner, units]).sort()),
    key: Object.fromEntries((await usage('key')).map(({ owner, keyId, units }) => [keyId ?? owner, units]).sort()),
  });
  /** Resolves when all servers have exchanged what they have counted. */
  async function settled(): Promise<void> {
    const sum = [...keys, ...revoked].reduce((all, { units }) => all + units, 0);
    const all = [...ended.values()].reduce((left, units) => left + units, sum);
    for (let looks = 0; ; looks += 1) {
      clock.advance(EXCHANGED_MS); // again and again: an exchange may have begun before the last uses
      const found = (await usage('owner')).reduce((units, line) => units + line.units, 0);
      if (found === all) return;
      if (found > all || looks > LOOKS_MAX) expect(await billed()).toEqual(expected());
      await Bun.sleep(5);
    }
  }

  for (let day = 0; day < DAYS; day += 1) {
    for (let action = 0; action < ACTIONS_A_DAY; action += 1) {
      if (keys.length < OWNERS || random() < 0.1) {
        const owner = `owner ${below(OWNERS)}`;
        const { id, key } = await one().createKey(owner, { scopes: ['read', 'delegate'] });
        keys.push({ id, key, owner, units: 0 });
      }
      const key = keys[below(keys.length)] as Key;
      const kind = random() < 0.5 ? 'use' : (kinds[below(kinds.length)] as string);
      await ACTIONS[kind]?.(key);
      clock.advance(below(2000));
    }
    const stopped = day % apps.length;
    await apps[stopped]?.close();
    apps[stopped] = await start();
    if (day < DAYS - 1) clock.advance(DAY_MS - (clock.nowMs() % DAY_MS) + below(DAY_MS / 2));
  }
  for (const app of apps) await app.close(); // with what they have counted last
  expect(await billed()).toEqual(expected());
  expect(ended.size).toBeGreaterThan(5);
});
