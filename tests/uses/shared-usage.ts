// Processes that count the uses of one key on one database, with a clock that is moved: each has its own wall clock, and
// what it sends to the database comes late, twice, or not at all.

import type { Quota } from '../../src/ground/rate-limit.ts';
import { StoreOutage } from '../../src/ground/result.ts';
import { countingSleep, nextTurn } from '../../src/ground/runtime.ts';
import type { ApiKeyRecord } from '../../src/keys/record.ts';
import type { KeyStore } from '../../src/keys/store.ts';
import { createReadKeys } from '../../src/keys/unknown-keys.ts';
import { type Clock, createLog, systemRandom } from '../../src/start/package/index.ts';
import type { DatabaseConfig } from '../../src/store/database.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import type { Holder } from '../../src/uses/holder.ts';
import { createUsage } from '../../src/uses/usage.ts';
import { OPTIONS } from '../support/backups.ts';
import { type TestClock, testClock } from '../support/clock.ts';
import { record } from '../support/stores.ts';

const AWAY = new StoreOutage('away');

const READ_MS_MAX = 1000;

export type { Quota, Store };

export const NO_OWNER_LIMITS = { ownerDefaults: { rateLimit: null, quota: null } };

/** A store that prunes nothing by itself: these tests are at other times than the database. */
export const openStill = (config: DatabaseConfig): Promise<Store> =>
  openStore(config, { ...OPTIONS, clock: testClock() });

let inserted = 0;

export type Counted = ApiKeyRecord;

/** A key of an owner of its own, unless that is said. */
export async function insertCounted(
  store: KeyStore,
  limits: Pick<ApiKeyRecord, 'rateLimit' | 'quota'>,
  userId = `owner ${inserted + 1}`,
): Promise<ApiKeyRecord> {
  inserted += 1;
  const digits = inserted.toString(16);
  const made = record({
    id: digits.padStart(32, '0'),
    userId,
    name: 'k',
    keyHash: digits.padStart(64, '0'),
    createdAtMs: inserted,
    ...limits,
  });
  await store.insert(made, 1000, { how: 'command', actor: null, requestId: null, address: null });
  return made;
}

/** What happens to a statement. */
export interface Way {
  /** There and back. */
  readonly delayMs: number;
  readonly lost?: 'request' | 'response' | undefined;
  /** It is carried out once more, so much later. */
  readonly againMs?: number | undefined;
}

export type CountingProcess = Awaited<ReturnType<ReturnType<typeof processesOn>['start']>>;

export function processesOn(
  store: KeyStore,
  clock: TestClock,
  ...records: readonly Pick<ApiKeyRecord, 'id' | 'keyHash'>[]
) {
  let wayOf: () => Way = () => ({ delayMs: 0 });
  let underWay = 0;
  const log = createLog({ level: 'error', clock, write: async (text) => void process.stderr.write(text) });
  const later = (ms: number) =>
    ms === 0 ? Promise.resolve() : new Promise<void>((resolve) => void clock.after(ms, resolve));

  async function carriedOut<T>(run: () => PromiseLike<T> | T): Promise<T> {
    underWay += 1;
    try {
      return await run();
    } finally {
      underWay -= 1;
    }
  }

  async function send<T>(run: () => Promise<T>): Promise<T> {
    const { delayMs, lost, againMs } = wayOf();
    await later(delayMs / 2);
    if (againMs !== undefined) void later(againMs).then(() => carriedOut(run));
    const result = lost === 'request' ? AWAY : await carriedOut(run);
    await later(delayMs / 2);
    if (lost !== undefined || result instanceof StoreOutage) throw AWAY;
    return result;
  }

  return {
    /** One that has read the record, with its counts. */
    async start(skewMs = 0) {
      let isAlive = true;
      const own = countingSleep({ ...clock, nowMs: () => clock.nowMs() + skewMs });
      const mortal = async <T>(run: () => Promise<T>) => (isAlive ? send(run) : new Promise<never>(() => {}));
      const reached: KeyStore = {
        ...store,
        findByHashes: (...asked) => mortal(() => store.findByHashes(...asked)),
        addUses: (uses) => mortal(() => store.addUses(uses)),
        totalsOf: (windows) => mortal(() => store.totalsOf(windows)),
      };
      const usage = createUsage({
        store: reached,
        clock: own,
        random: systemRandom,
        log,
        keyDefaults: { rateLimit: null, quota: null },
        ...NO_OWNER_LIMITS,
      });
      const holders = new Map<string, Holder>();
      const readFrom = async (from: KeyStore) => {
        const position = { databaseId: '', seq: 0, mark: null };
        const readKeys = createReadKeys(
          from,
          { position, queryTimeoutMs: READ_MS_MAX, pollNow: async () => {} },
          usage,
        );
        const found = await readKeys(
          records.map(({ keyHash }) => keyHash),
          'primary',
        );
        for (const { keyHash } of records) {
          const { record, ...read } = found(keyHash);
          if (record === null) throw new Error('a key is not there');
          const holder = usage.holderOf(record, read, true);
          holders.set(record.id, holders.get(record.id) ?? usage.keep(holder)); // as the cache of keys does
        }
      };
      const holderOf = (id: string) => holders.get(id) as Holder; // each was read at the start
      await readFrom(store);
      return {
        usage,
        /** Counts a call of the key with this id, by its record as it was last read. */
        admit: (id: string, units?: number) => usage.admit(holderOf(id), units),
        note: (id: string) => usage.note(holderOf(id), own.nowMs()),
        clock: own as Clock,
        /** Reads the record once more, with its counts. */
        read: () => readFrom(reached),
        /** It ends without a word. */
        kill() {
          isAlive = false;
        },
      };
    },
    /** Moves the clock, and waits until the database has done what it was asked meanwhile. */
    async pass(ms: number) {
      clock.advance(ms);
      do await nextTurn();
      while (underWay > 0);
      await nextTurn();
    },
    /** From now on; the way of each statement. */
    setWay(next: () => Way) {
      wayOf = next;
    },
  };
}
