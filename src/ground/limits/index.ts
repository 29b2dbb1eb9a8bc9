// The table of all limits that matter beyond one file: amount, for whom, and the response beyond it. Tests check the
// tables in the documents against it.

import type { Rate, SlidingRate } from './rates.ts';
import type { Bounds } from './semaphore.ts';

interface Facts {
  /** What is limited, in the words of the documents. */
  readonly what: string;
  /** What happens beyond the limit, if not 429 `rate_limited`. */
  readonly beyond?: string;
  /** Who has a separate budget, or the smaller of two numbers; an address is an IPv4, or an IPv6 /64. */
  readonly per?: string;
}

interface Amount extends Facts {
  readonly unit: 'bytes' | 'streams' | 'lists' | 'calls' | 'requests' | 'keys';
}

/** A rate, or an amount at the same time: in total, for each, or both. */
export type Limit = (Facts & (Rate | SlidingRate)) | (Amount & (Bounds | Pick<Bounds, 'each'> | Pick<Bounds, 'total'>));

const MIB = 1024 * 1024;

const PERSON = 'person';

const OVERLOADED = '503 `overloaded`';
const RATE_LIMITED = '429 `rate_limited`';
const RATE_LIMITED_UNTIL = `${RATE_LIMITED} until one ends`;
/** pool.ts */
const STILLEST_CUT = 'the stillest make room, else 503 `overloaded`';

export const LIMITS = {
  /** Far above any sensible input of a tool. */
  body: { what: 'request body', unit: 'bytes', each: MIB, beyond: '413 `payload_too_large`' },
  /** MCP sends it as JSON and as escaped text: three times this and the rest of a batch (1 Mi) fit in `unread`. */
  output: { what: 'output of a tool or prompt', unit: 'bytes', each: 4.5 * MIB, beyond: '500 `internal`' },
  /** The burst is twice what a user may hold by default, to replace all keys; the rate exceeds people and scripts. */
  creations: { what: 'creating, rotating and changing keys', burst: 2000, perS: 20, per: PERSON },
  /**
   * Each adds up to four events, kept for EVENT_DAYS: 5 MB a day per person beyond the burst, where 20 a second would add
   * 1 GB. The burst replaces the most keys of a user (by default) ten times.
   */
  creationsOfDay: {
    what: 'creating, rotating and changing keys, over a day',
    burst: 10_000,
    perS: 0.1,
    per: PERSON,
  },
  /** Each is a row until a day after its end, at most two days. Counted over all processes. */
  children: { what: 'living children of a key', unit: 'keys', each: 100, beyond: RATE_LIMITED_UNTIL },
  childrenOfOwner: {
    what: 'living children of all keys of an owner',
    unit: 'keys',
    each: 1000,
    beyond: RATE_LIMITED_UNTIL,
  },
  /** Each is a row, and adds an event, like creations. Half of the owner's day, so that a key that leaked leaves the rest. */
  exchangesOfKey: { what: 'making children of a key', burst: 100, perS: 1, per: 'key' },
  exchangesOfKeyAndDay: {
    what: 'making children of a key, over a day',
    burst: 5000,
    perS: 0.05,
    per: 'key',
  },
  exchanges: { what: 'making children for an owner', burst: 100, perS: 1, per: 'owner' },
  exchangesOfDay: {
    what: 'making children for an owner, over a day',
    burst: 10_000,
    perS: 0.1,
    per: 'owner',
  },
  /** Each is a row for a minute, and adds an event, like creations. */
  signIns: {
    what: 'handing a key to clients',
    burst: 100,
    perS: 0.1,
    per: 'key',
  },
  /** Programs that wait for a person's decision. */
  keyRequests: {
    what: 'open requests of programs for a key',
    unit: 'requests',
    total: 10_000,
    each: 10,
    per: 'address',
    beyond: `${RATE_LIMITED}; if all are taken, the oldest of the networks that hold most end`,
  },
  /** A stranger may own all addresses of one network. */
  keyRequestsOfNetwork: {
    what: 'such requests of one network, an IPv4 /24 or an IPv6 /48',
    unit: 'requests',
    each: 100,
  },
  /** Each is a write, even if too many are open. */
  keyRequestsAsked: {
    what: 'requests of programs for a key',
    burst: 100,
    perS: 1,
    per: 'address',
  },
  /** There are 2.5 * 10^10 codes: 1,000 persons guessing for ten minutes find one of 10,000 with a chance of 1 in 250. */
  wrongUserCodes: {
    what: 'wrong codes of such requests',
    most: 10,
    inS: 600,
    per: PERSON,
  },
  /** Bounds made-up ids. Documents that the operator lists exactly, or that were good before, are always fetched. */
  clientDocuments: {
    what: 'fetching client documents under a wildcard of `OAUTH_CLIENTS`',
    most: 10,
    inS: 60,
    per: 'address',
  },
  clientDocumentsOfAll: {
    what: 'fetching them for whoever asks',
    most: 60,
    inS: 60,
    per: 'process',
  },
  /** Each is a read, or two writes without effect. Effective ones are bounded by creations. */
  failedChanges: {
    what: 'ending and rotating keys that are not there, or have ended',
    burst: 2000,
    perS: 20,
    per: PERSON,
  },
  /** At 2 to 5 ms for the largest list: a tenth of a core, or half of one if all its keys are used daily. */
  lists: { what: 'lists of keys', burst: 40, perS: 20, per: PERSON },
  /** Each reads at most 51 rows. */
  histories: { what: 'histories of keys', burst: 40, perS: 20, per: PERSON },
  /** `sqld` allows 10 MB for all responses together, over all processes. Persons take turns. */
  listsAtOnce: {
    what: 'lists that are read',
    unit: 'lists',
    total: 6,
    each: 1,
    per: PERSON,
    beyond: 'they wait, for 5 s; then 503 `overloaded`',
  },
  /** At 40 µs each, under 1 % of a core; the burst is for a cold start behind one proxy. Good keys do not count. */
  unknownKeys: {
    what: 'unknown keys, read as they come',
    burst: 1000,
    perS: 200,
    per: 'address',
    beyond: 'they are read 500 at a time, with pauses; what finds no place among those is 429 `rate_limited`',
  },
  /** A waiting tool holds its input even after its client hung up, so limiting connections would not suffice. */
  messages: {
    what: 'requests above 16 KiB, until their calls are over',
    unit: 'bytes',
    total: 64 * MIB,
    beyond: STILLEST_CUT,
  },
  /** At about 10 KB a quiet stream, 10 MB in all: far below what a small machine has. */
  streams: {
    what: 'open `/sse` streams',
    unit: 'streams',
    total: 1000,
    each: 100,
    per: 'address, and for each owner',
    beyond: 'the oldest of them that belongs to nobody makes room; else 503 `overloaded`',
  },
  /** Each process of a service asks four times within the bound: 97 may at the default bound, 22 at the shortest. */
  askingForChanges: {
    what: 'requests of services for changes',
    burst: 800,
    perS: 400,
    per: 'calling key',
    beyond: '429 `slow_down`',
  },
  /** Clients wait for responses, so they have few calls at once. */
  sessionCalls: { what: 'calls at once in one session of `/sse`', unit: 'calls', each: 256, beyond: OVERLOADED },
  /** Eighteen of the largest lists over MCP, or thousands of events; twice as much takes the process above 256 MB. */
  unread: {
    what: 'unread responses above 64 Ki characters, and event streams',
    unit: 'bytes',
    total: 16 * MIB,
    beyond: STILLEST_CUT,
  },
} as const satisfies Readonly<Record<string, Limit>>;
