// Limits how often unknown keys from one source may have the store asked, and so what a flood of guesses can cost.
//
// Each source has a token bucket of reads. Only keys that turn out wrong use it up, so honest callers have all of it. A
// caller over budget waits a little, then gets 429. A key that comes back as Retry-After asks is looked up together with
// all others that came back (joint-reads.ts), once. There are places for more of those than a server can be asked for,
// so whatever the flood is made of, an honest key from the same address gets in when it comes back.

import type { Clock } from '../clock.ts';
import type { Awaitable } from '../problem.ts';
import { createRecent } from '../recent.ts';
import { sleep } from '../waiting.ts';
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

/**
 * Callers that may wait, per source and in all, and how long. Their connections ask for nothing else meanwhile, which
 * leaves more of the processor to others.
 */
const WAITING_PER_SOURCE = 16;
const WAITING_MAX = 1000;
const WAIT_MS_MAX = 100;

/** How the store may be asked for a key, if at all. */
export type Admission = 'alone' | 'together' | 'refused';

export interface MissBudget {
  /** `alone`, now or after a short wait, takes one read out of the source's budget. */
  admit(source: string, keyHash: string): Awaitable<Admission>;
  /** Gives a read back: the key was known after all. */
  giveBack(source: string): void;
  /** The key could not be looked up: it may come back. */
  refuse(keyHash: string): void;
}

interface Source extends TokenBucket {
  waiting: number;
}

export function createMissBudget(clock: Clock): MissBudget {
  const sources = createRecent<Source>({ entries: SOURCES_MAX });
  const refusedAtMs = createRefusalTimes();
  let waiting = 0;

  function sourceAt(name: string, nowMs: number): Source {
    const known = sources.get(name);
    if (known !== undefined) {
      refill(known, MISSES, nowMs);
      return known;
    }
    const source = { ...fullBucket(MISSES, nowMs), waiting: 0 };
    sources.set(name, source);
    return source;
  }

  async function wait(source: Source, keyHash: string): Promise<Admission> {
    source.waiting += 1;
    waiting += 1;
    await sleep(Math.random() * WAIT_MS_MAX);
    source.waiting -= 1;
    waiting -= 1;
    const nowMs = clock.monotonicMs();
    refill(source, MISSES, nowMs);
    return tryTake(source) ? 'alone' : refuse(keyHash, nowMs);
  }

  function refuse(keyHash: string, nowMs: number): Admission {
    // It waits from the first time on, however often it comes.
    if (refusedAtMs.get(keyHash) === undefined) refusedAtMs.set(keyHash, nowMs);
    return 'refused';
  }

  return {
    admit(name, keyHash) {
      const nowMs = clock.monotonicMs();
      const source = sourceAt(name, nowMs);
      if (tryTake(source)) return 'alone';
      const earlierMs = refusedAtMs.get(keyHash);
      if (earlierMs !== undefined && nowMs - earlierMs >= RETURN_AFTER_MS) {
        refusedAtMs.delete(keyHash);
        return 'together';
      }
      const mayWait = source.waiting < WAITING_PER_SOURCE && waiting < WAITING_MAX;
      return mayWait ? wait(source, keyHash) : refuse(keyHash, nowMs);
    },
    giveBack(source) {
      sourceAt(source, clock.monotonicMs()).tokens += 1;
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
