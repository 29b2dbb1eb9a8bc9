// Counts the uses that services report in the field `used`: how often they let in which key from memory. Each pair names a
// key by a handle that works only for the service that got it.

import { createLruCache } from '../../ground/cache.ts';
import type { Problem } from '../../ground/problem.ts';
import { err, ok, outageIn, type Result } from '../../ground/result.ts';
import type { Clock } from '../../ground/runtime.ts';
import type { KnownKey } from '../../keys/known-keys.ts';
import { whyEnded } from '../../keys/record.ts';
import type { Database } from '../../store/database.ts';
import type { Log } from '../../watch/log.ts';
import type { Macs } from './marks.ts';
import { INVALID, type ServiceCall, type ServicesOptions } from './service.ts';

const PAIRS_MAX = 1000;
const UNITS_MAX = 1_000_000;
/** A handle, of which any text may be one that no answer gave, and units. */
const PAIR = /^(.+):([1-9]\d{0,6})$/s;
/** A handle begins with a MAC of so many digits; a percent-encoded id follows. */
const MAC_CHARS = 16;

/** Units by the handle of the key. */
export type Used = ReadonlyMap<string, number>;

/** Parses a field `used`; an empty one reports nothing. */
export function usedIn(text: string): Result<Used, Problem> {
  const used = new Map<string, number>();
  const pairs = text.split(' ').filter((pair) => pair !== '');
  if (pairs.length > PAIRS_MAX) return err(INVALID);
  for (const pair of pairs) {
    const [, handle, digits] = PAIR.exec(pair) ?? [];
    const units = Number(digits);
    if (handle === undefined || units > UNITS_MAX) return err(INVALID);
    used.set(handle, (used.get(handle) ?? 0) + units);
  }
  return ok(used);
}

/** Returns the handle by which a service names a key when it reports uses. */
export function handleOf(macs: Macs, callerKeyId: string, keyId: string): string {
  const encoded = encodeURIComponent(keyId);
  return macOf(macs, callerKeyId, encoded) + encoded;
}

const macOf = (macs: Macs, callerKeyId: string, encoded: string): string =>
  macs.of('tell', `${encodeURIComponent(callerKeyId)} ${encoded}`);

/** Returns the id of the key; null if this caller was not given the handle. */
function keyIdIn(handle: string, macs: Macs, callerKeyId: string): string | null {
  const encoded = handle.slice(MAC_CHARS);
  return macOf(macs, callerKeyId, encoded) === handle.slice(0, MAC_CHARS) ? decodeURIComponent(encoded) : null;
}

/** A calling key's dropped uses are logged at most this often. */
const LOGGED_EVERY_MS = 60_000;
const CALLERS_MAX = 1000;

/** Creates a log that sums the dropped units, and writes a line once a minute for each calling key. */
function createDroppedLog(clock: Clock, log: Log) {
  const callers = createLruCache<{ saidAtMs: number; units: number }>({ entries: CALLERS_MAX });
  return ({ requestId, auth }: ServiceCall, dropped: number): void => {
    if (dropped === 0) return;
    const { keyId, subject: userId } = auth;
    const caller = callers.get(keyId) ?? { saidAtMs: Number.NEGATIVE_INFINITY, units: 0 };
    callers.set(keyId, caller);
    caller.units += dropped;
    if (clock.monotonicMs() - caller.saidAtMs < LOGGED_EVERY_MS) return;
    log.warn('told uses not counted', { requestId, keyId, userId, units: caller.units });
    caller.saidAtMs = clock.monotonicMs();
    caller.units = 0;
  };
}

/** Ids whose hashes are cached, some 4 MB. A miss costs a read. */
const IDS_MAX = 20_000;

const HASHES = 'SELECT id, key_hash FROM api_keys WHERE id IN (SELECT value FROM json_each(?1))';

const hashesStore = (primary: Database) => ({
  /** Returns the hashes of the secrets in force, by key id, of the keys that exist. */
  async hashesOf(keyIds: readonly string[], withinMs: number): Promise<ReadonlyMap<string, string>> {
    const rows = await primary.read({ sql: HASHES, args: [JSON.stringify(keyIds)] }, withinMs);
    return new Map(rows.map(({ id, key_hash }) => [String(id), String(key_hash)]));
  },
});

export type Reported = ReturnType<typeof createReported>;

export function createReported(
  macsNow: () => Promise<Macs>,
  { storeOf, feed, verifier, usage, ageClock, log }: ServicesOptions,
) {
  const { hashesOf } = storeOf(hashesStore);
  /** The hash of one of a key's secrets, by the key's id. */
  const hashById = createLruCache<string>({ entries: IDS_MAX });
  const logDropped = createDroppedLog(ageClock, log);

  /** Returns a cached key. If only its rotated secret is cached it is `unread`, as is what names no key. */
  function recall(keyId: string): KnownKey | 'ended' | 'unread' {
    const key = verifier.known.recall(hashById.get(keyId) ?? '', ageClock.monotonicMs());
    if (key == null) return 'unread';
    const reason = whyEnded(key, ageClock.nowMs());
    if (reason === 'rotated') return 'unread';
    return reason === null ? key : 'ended';
  }

  /** Counts units of a key. Returns how many found no room; those of an ended key are ignored. */
  const countUnits = (key: KnownKey | null | undefined, units: number): number =>
    key?.holder ? usage.countReported(key.holder, units) : 0;

  /** Reads keys together, by their ids. Throws a StoreOutage if the store is out of reach. */
  async function readAll(keyIds: readonly string[]): Promise<(keyId: string) => KnownKey | null | undefined> {
    const hashes = await hashesOf(keyIds, feed.queryTimeoutMs);
    for (const [keyId, keyHash] of hashes) hashById.set(keyId, keyHash);
    const keys = await verifier.known.readAll([...hashes.values()], 'any'); // not all are cached: changes may overtake the read
    return (keyId) => keys.get(hashes.get(keyId) ?? '');
  }

  /** Returns the units by the ids of the keys. What names no key to this caller is left out. */
  async function unitsById(used: Used, callerKeyId: string): Promise<ReadonlyMap<string, number>> {
    const macs = await macsNow();
    const units = new Map<string, number>();
    for (const [handle, uses] of used) {
      const keyId = keyIdIn(handle, macs, callerKeyId);
      if (keyId !== null) units.set(keyId, uses);
    }
    return units;
  }

  return {
    /** Notes that a service was told that this key is good, and will report its uses. */
    expect: (keyId: string, keyHash: string): void => hashById.set(keyId, keyHash),

    /** Counts what a service reports. While the store is out of reach, uses of keys that aren't known here are lost. */
    async count(used: Used, caller: ServiceCall): Promise<void> {
      if (used.size === 0) return;
      let dropped = 0;
      try {
        const unread = new Map<string, number>();
        for (const [keyId, units] of await unitsById(used, caller.auth.keyId)) {
          const key = recall(keyId);
          if (key === 'unread') unread.set(keyId, units);
          else if (key !== 'ended') dropped += countUnits(key, units);
        }
        if (unread.size > 0) {
          const keyOf = await readAll([...unread.keys()]);
          for (const [keyId, units] of unread) dropped += countUnits(keyOf(keyId), units);
        }
      } catch (error) {
        outageIn(error);
      }
      logDropped(caller, dropped);
    },
  };
}
