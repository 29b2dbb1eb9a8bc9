// Limits how often unknown keys from one source may have the store asked, and so what a flood of guesses can cost.
//
// Each source has a token bucket of reads. Only keys that turn out wrong use it up, so honest callers have all of it. A
// key over budget is refused with 429 and Retry-After. When it comes back as it was told, it is looked up together with
// all others that came back (joint-reads.ts), once. There are places for more of those than a server can be asked for,
// so whatever the flood is made of, an honest key from the same address gets in when it comes back.

import type { Clock } from '../clock.ts';
import { createRecent } from '../recent.ts';
import { createRefusalTimes } from './refusal-times.ts';
import { type Allowance, fullBucket, refill, type TokenBucket, tryTake } from './token-bucket.ts';

/**
 * Unknown keys a source may have read one by one: at 40 µs each, under 1 % of a core. The burst is for a cold start, when
 * many honest callers behind one proxy present many keys at once.
 */
const MISSES: Allowance = { perS: 200, burst: 1000 };
/** A refused key that comes back sooner than this did not wait as it was told. */
const RETURN_AFTER_MS = 900;
/** Sources remembered. Beyond this, those quiet the longest are forgotten, and start again with a full budget. */
const SOURCES_MAX = 10_000;

/** How the store may be asked for a key, if at all. */
export type Admission = 'alone' | 'together' | 'refused';

export interface MissBudget {
  /** `alone` takes one read out of the source's budget. */
  admit(source: string, keyHash: string): Admission;
  /** Gives a read back: the key was known after all. */
  giveBack(source: string): void;
  /** The key could not be looked up: it may come back. */
  refuse(keyHash: string): void;
}

export function createMissBudget(clock: Clock): MissBudget {
  const sources = createRecent<TokenBucket>({ entries: SOURCES_MAX });
  const refusedAtMs = createRefusalTimes();

  function bucketOf(source: string, nowMs: number): TokenBucket {
    const known = sources.get(source);
    if (known !== undefined) {
      refill(known, MISSES, nowMs);
      return known;
    }
    const bucket = fullBucket(MISSES, nowMs);
    sources.set(source, bucket);
    return bucket;
  }

  return {
    admit(source, keyHash) {
      const nowMs = clock.monotonicMs();
      if (tryTake(bucketOf(source, nowMs))) return 'alone';
      const earlierMs = refusedAtMs.get(keyHash);
      if (earlierMs !== undefined && nowMs - earlierMs >= RETURN_AFTER_MS) {
        refusedAtMs.delete(keyHash);
        return 'together';
      }
      if (earlierMs === undefined) refusedAtMs.set(keyHash, nowMs); // it waits from now on, however often it comes
      return 'refused';
    },
    giveBack(source) {
      bucketOf(source, clock.monotonicMs()).tokens += 1;
    },
    refuse(keyHash) {
      refusedAtMs.set(keyHash, clock.monotonicMs());
    },
  };
}

/**
 * The network a budget belongs to: an IPv4 address, also one within an IPv6 address, or the /64 of an IPv6 address, all
 * of which one host may own.
 */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const groups = groupsOf(address);
  if (groups === null) return address;
  const beginsWith = (prefix: readonly number[]) => prefix.every((group, index) => groups[index] === group);
  if (beginsWith(MAPPED) || beginsWith(NAT64)) {
    const [high = 0, low = 0] = groups.slice(6);
    return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.');
  }
  const spelled = groups.map((group) => group.toString(16));
  return beginsWith(NAT64_LOCAL) ? spelled.join(':') : `${spelled.slice(0, 4).join(':')}::/64`;
}

/** ::ffff:0:0/96, IPv4-mapped addresses (RFC 4291 §2.5.5.2). */
const MAPPED = [0, 0, 0, 0, 0, 0xffff];
/** 64:ff9b::/96: IPv4 addresses behind a translator (RFC 6052 §2.1). */
const NAT64 = [0x64, 0xff9b, 0, 0, 0, 0];
/** 64:ff9b:1::/48: the same, where each network decides which bits hold the IPv4 address (RFC 8215). */
const NAT64_LOCAL = [0x64, 0xff9b, 1];

/** The groups of an IPv6 address in any spelling (RFC 4291 §2.2); null if it is none. */
function groupsOf(address: string): readonly number[] | null {
  const [head = '', tail] = (address.split('%', 1)[0] ?? '').replace(DOTTED, asGroups).split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail ? tail.split(':') : [];
  const zeros = 8 - before.length - after.length;
  if (tail === undefined ? zeros !== 0 : zeros < 0) return null;
  const groups = [...before, ...Array<string>(zeros).fill('0'), ...after].map((group) => Number.parseInt(group, 16));
  return groups.some(Number.isNaN) ? null : groups;
}

const DOTTED = /(\d+)\.(\d+)\.(\d+)\.(\d+)$/;

function asGroups(_all: string, ...bytes: readonly string[]): string {
  const [a, b, c, d] = bytes.map(Number) as [number, number, number, number];
  return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
}
