// A month of three processes, each day stopped in order and started anew a day later: keys are made, used, rotated, revoked and
// deleted, and have children. `keys usage` is then what a model says, to the unit, by owner and by key.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { childOf } from '../../support/children.ts';
import { callOver, userHeaders } from '../../support/client.ts';
import { useKey } from '../../support/cluster.ts';
import { jsonLines, keysCommand } from '../../support/keys-command.ts';
import { seeded } from '../../support/model-user.ts';
import { type ServerProcess, startServer } from '../../support/server-process.ts';
import { STORE_MODES, startStore } from '../../support/store-mode.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

const DAYS = 31;
const ACTIONS_A_DAY = 60;
const OWNERS = 50;
const PROCESSES = 3;
const CLOCK = join(import.meta.dir, '../upgrade/clock-days-ago.ts');

interface Key {
  readonly id: string;
  readonly owner: string;
  key: string;
  units: number;
  /** What it has used today may not be in the database yet: a deletion would lose that. */
  usedOn: number;
}

test.each(STORE_MODES)(
  `${DAYS} days of ${PROCESSES} processes (%s)`,
  async (mode) => {
    const random = seeded(74);
    const below = (count: number) => Math.floor(random() * count);
    await using store = await startStore(mode);
    const env = { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0', LOG_LEVEL: 'warn', ...store.env() };
    const keys: Key[] = [];
    const revoked: Key[] = [];
    /** Units of deleted keys, by owner. */
    const ended = new Map<string, number>();
    let acknowledged = 0;

    for (let daysAgo = DAYS - 1; daysAgo >= 0; daysAgo -= 1) {
      const start = () => startServer({ env: { ...env, DAYS_AGO: String(daysAgo) }, preload: [CLOCK] });
      const servers = await Promise.all(Array.from({ length: PROCESSES }, start));
      const one = () => servers[below(PROCESSES)] as ServerProcess;
      const call = async (tool: string, owner: string, input: object) => {
        const { status, body } = await callOver(one().url, tool, input, await userHeaders(owner));
        expect({ tool, status, body: status === 200 ? {} : body }).toEqual({ tool, status: 200, body: {} });
        return body;
      };
      async function use(key: Key, secret: string, times: number): Promise<void> {
        const statuses = await Promise.all(Array.from({ length: times }, () => useKey(one(), secret)));
        expect(statuses).toEqual(Array(times).fill(200));
        key.units += times;
        key.usedOn = daysAgo;
        acknowledged += times;
      }
      const ACTIONS: Readonly<Record<string, (key: Key) => Promise<unknown>>> = {
        use: (key) => use(key, key.key, 1 + below(9)),
        async 'use by a child'(key) {
          await use(key, (await childOf(one(), key.key)).key, 1 + below(5));
        },
        async rotate(key) {
          key.key = (await call('rotate_api_key', key.owner, { keyId: key.id, overlapHours: 0 })).key;
          await use(key, key.key, 1 + below(3));
        },
        async revoke(key) {
          await call('revoke_api_key', key.owner, { keyId: key.id });
          keys.splice(keys.indexOf(key), 1);
          revoked.push(key);
        },
        async delete(key) {
          if (key.usedOn === daysAgo) return;
          await call('delete_api_key', key.owner, { keyId: key.id });
          keys.splice(keys.indexOf(key), 1);
          ended.set(key.owner, (ended.get(key.owner) ?? 0) + key.units);
        },
      };
      const kinds = Object.keys(ACTIONS);
      for (let action = 0; action < ACTIONS_A_DAY; action += 1) {
        if (keys.length < OWNERS || random() < 0.1) {
          const owner = `owner ${below(OWNERS)}`;
          const { id, key } = await call('create_api_key', owner, { name: 'k', scopes: ['read', 'delegate'] });
          keys.push({ id, key, owner, units: 0, usedOn: Number.POSITIVE_INFINITY });
        }
        const kind = random() < 0.5 ? 'use' : (kinds[below(kinds.length)] as string);
        await ACTIONS[kind]?.(keys[below(keys.length)] as Key);
      }
      expect(await Promise.all(servers.map((server) => server.stop()))).toEqual(Array(PROCESSES).fill(0));
    }

    const usage = async (by: string) =>
      jsonLines(await keysCommand(store.env(), ['usage', '--days', String(DAYS + 1), '--by', by, '--json']));
    const used = [...keys, ...revoked].filter(({ units }) => units > 0);
    const byOwner = new Map(ended);
    for (const { owner, units } of used) byOwner.set(owner, (byOwner.get(owner) ?? 0) + units);
    const sorted = (units: Iterable<readonly [string, number]>) => [...units].filter(([, all]) => all > 0).sort();
    expect(sorted((await usage('owner')).map(({ owner, units }) => [owner, units]))).toEqual(sorted(byOwner));
    expect(sorted((await usage('key')).map(({ owner, keyId, units }) => [keyId ?? owner, units]))).toEqual(
      sorted([...used.map(({ id, units }) => [id, units] as const), ...ended]),
    );
    console.log(`${mode}: ${acknowledged} units of ${byOwner.size} owners, ${ended.size} of them with deleted keys`);
  },
  900_000,
);
