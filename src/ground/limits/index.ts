// The table of limits that have a meaning outside their file: amount, for whom, and what callers beyond it get. The
// tables in the documents are checked against it.

import type { Rate, SlidingRate } from './rates.ts';
import type { Bounds } from './semaphore.ts';

interface Facts {
  /** What is limited, as the documents name it. */
  readonly what: string;
  /** What those beyond it get, if not 429 `rate_limited`. */
  readonly beyond?: string;
  /** Who has a budget of its own, or for whom the smaller of two numbers is; an address is an IPv4, or an IPv6 /64. */
  readonly per?: string;
}

interface Amount extends Facts {
  readonly unit: 'bytes' | 'streams' | 'lists' | 'calls' | 'requests' | 'keys';
}

/** A rate, or so much at the same time: of all together and of each, or one of the two. */
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
  /** MCP sends it as JSON and as escaped text: three times this and the rest of a batch (1 Mi) fit into `unread`. */
  output: { what: 'output of a tool or prompt', unit: 'bytes', each: 4.5 * MIB, beyond: '500 `internal`' },
  /** Twice as many at once as a user may hold, so that all can be replaced; then more than people and scripts make. */
  creations: { what: 'creating, rotating and changing keys', burst: 2000, perS: 20, per: PERSON },
  /**
   * Each leaves up to four events, kept for EVENT_DAYS: 5 MB a day of one person beside the burst, where 20 a second
   * would leave 1 GB. The burst replaces all keys of a user ten times.
   */
  creationsOfDay: {
    what: 'creating, rotating and changing keys, over a day',
    burst: 10_000,
    perS: 0.1,
    per: PERSON,
  },
  /** Each is a row until a day after its end, at most two days. Counted for all processes together. */
  children: { what: 'living children of a key', unit: 'keys', each: 100, beyond: RATE_LIMITED_UNTIL },
  childrenOfOwner: {
    what: 'living children of all keys of an owner',
    unit: 'keys',
    each: 1000,
    beyond: RATE_LIMITED_UNTIL,
  },
  /** Each is a row, and leaves an event, as creations do. */
  exchanges: { what: 'keys that keys make for their agents', burst: 100, perS: 1, per: 'owner' },
  exchangesOfDay: {
    what: 'keys that keys make for their agents, over a day',
    burst: 10_000,
    perS: 0.1,
    per: 'owner',
  },
  /** Each is a row for a minute, and leaves an event, as creations do. */
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
  /** A stranger may have all addresses of one. */
  keyRequestsOfNetwork: {
    what: 'such requests of one network, an IPv4 /24 or an IPv6 /48',
    unit: 'requests',
    each: 100,
  },
  /** Each is a write, also one that finds too many open. */
  keyRequestsAsked: {
    what: 'requests of programs for a key',
    burst: 100,
    perS: 1,
    per: 'address',
  },
  /** There are 2.5 * 10^10 codes: a thousand persons who guess for ten minutes find one of 10,000 in 1 of 250 cases. */
  wrongUserCodes: {
    what: 'wrong codes of such requests',
    most: 10,
    inS: 600,
    per: PERSON,
  },
  /** Bounds ids that anybody can make up. What the operator lists exactly, or was good before, is fetched whenever needed. */
  clientDocuments: {
    what: 'fetching documents of clients under a wildcard of `OAUTH_CLIENTS`, unless a good one is remembered',
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
  /** Each is a write that changes nothing, then a read; what changes something is bounded by what was created. */
  failedChanges: {
    what: 'revoking, deleting and rotating keys that are not there, or have ended',
    burst: 2000,
    perS: 20,
    per: PERSON,
  },
  /** At 2 to 5 ms for the largest, a tenth of a core; half of one if all of its keys are used daily. */
  lists: { what: 'lists of keys', burst: 40, perS: 20, per: PERSON },
  /** Each reads at most 51 rows. */
  histories: { what: 'histories of keys', burst: 40, perS: 20, per: PERSON },
  /** `sqld` allows 10 MB for all its responses together, of all processes. Persons take turns. */
  listsAtOnce: {
    what: 'lists that are read',
    unit: 'lists',
    total: 6,
    each: 1,
    per: PERSON,
    beyond: 'they wait, for 5 s; then 503 `overloaded`',
  },
  /** At 40 µs each under 1 % of a core; the burst is for a cold start behind one proxy. Good keys do not count. */
  unknownKeys: {
    what: 'unknown keys, read as they come',
    burst: 1000,
    perS: 200,
    per: 'address',
    beyond: 'they are read 500 at a time, with pauses; what finds no place among those is 429 `rate_limited`',
  },
  /** A tool that waits holds its input also when its client hung up, so a bound on connections would not do. */
  messages: {
    what: 'requests above 16 KiB, until their calls are over, also when the client has hung up',
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
    beyond:
      'the oldest of them that belongs to nobody makes room, then the oldest that sent no request; else 503 `overloaded`',
  },
  /** At some 3 KB each; a service has one at a time in each of its processes. */
  listeners: {
    what: 'requests that wait for changes',
    unit: 'requests',
    total: 1000,
    each: 100,
    per: 'key',
    beyond: 'the oldest is answered at once: of that key, or of the owner who has most',
  },
  /** No one owner has more than half of all places for `listeners`. */
  listenersOfOwner: {
    what: 'of these, those of one owner',
    unit: 'requests',
    each: 500,
    per: 'owner',
    beyond: 'the oldest is answered at once',
  },
  /** Clients wait for responses, so they have few. */
  sessionCalls: { what: 'calls at once in one session of `/sse`', unit: 'calls', each: 256, beyond: OVERLOADED },
  /** Eighteen of the largest lists over MCP, or thousands of events; twice as much takes the process above 256 MB. */
  unread: {
    what: 'responses above 64 Ki characters, and event streams, that clients do not read',
    unit: 'bytes',
    total: 16 * MIB,
    beyond: STILLEST_CUT,
  },
} as const satisfies Readonly<Record<string, Limit>>;
