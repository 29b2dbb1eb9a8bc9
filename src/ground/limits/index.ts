// The table of all limits that matter beyond one file, each with its reason. README.md says for whom each is, and what
// happens beyond it; a test compares the amounts.

import type { Rate, SlidingRate } from './rates.ts';
import type { Bounds } from './semaphore.ts';

/** A rate, or an amount at the same time: in total, for each, or both. */
export type Limit = Rate | SlidingRate | Bounds | Pick<Bounds, 'each'> | Pick<Bounds, 'total'>;

const MIB = 1024 * 1024;

export const LIMITS = {
  /** Bytes. Far above any sensible input of a tool. */
  body: { each: MIB },
  /**
   * Bytes in memory. MCP sends it as JSON and as escaped text: three times this and the rest of a batch (1 Mi) fit in
   * `unread`. Of letters like é, which take four times as much, 4 Mi fit: an output of more is `overloaded` over MCP.
   */
  output: { each: 4.5 * MIB },

  // Of a person.

  /** The burst is twice what a user may hold by default, to replace all keys; the rate exceeds people and scripts. */
  creations: { burst: 2000, perS: 20 },
  /**
   * Each adds up to four events, kept for EVENT_DAYS: 5 MB a day per person beyond the burst, where 20 a second would add
   * 1 GB. The burst replaces the most keys of a user (by default) ten times.
   */
  creationsOfDay: { burst: 10_000, perS: 0.1 },
  /** Each is a read, or two writes without effect. Effective ones are bounded by creations. */
  failedChanges: { burst: 2000, perS: 20 },
  /** At 2 to 5 ms for the largest list: a tenth of a core, or half of one if all its keys are used daily. */
  lists: { burst: 40, perS: 20 },
  /** `sqld` allows 10 MB for all responses together, over all processes. Persons take turns. */
  listsAtOnce: { total: 6, each: 1 },
  /** Each reads at most 51 rows. */
  histories: { burst: 40, perS: 20 },

  // Of keys that keys make, and of their owner.

  /** Each is a row until a day after its end, at most two days. Counted over all processes. */
  children: { each: 100 },
  childrenOfOwner: { each: 1000 },
  /** Each is a row, and adds an event, like creations. Half of the owner's day, so that a key that leaked leaves the rest. */
  exchangesOfKey: { burst: 100, perS: 1 },
  exchangesOfKeyAndDay: { burst: 5000, perS: 0.05 },
  exchanges: { burst: 100, perS: 1 },
  exchangesOfDay: { burst: 10_000, perS: 0.1 },

  // Of clients that get keys.

  /** Each is a row for a minute, and adds an event, like creations. */
  signIns: { burst: 100, perS: 0.1 },
  /** Programs that wait for a person's decision, of an address. */
  keyRequests: { total: 10_000, each: 10 },
  /** A stranger may own all addresses of one network. */
  keyRequestsOfNetwork: { each: 100 },
  /** Each is a write, even if too many are open. */
  keyRequestsAsked: { burst: 100, perS: 1 },
  /** There are 2.5 * 10^10 codes: 1,000 persons guessing for ten minutes find one of 10,000 with a chance of 1 in 250. */
  wrongUserCodes: { most: 10, inS: 600 },
  /** Bounds made-up ids. Documents that the operator lists exactly, or that were good before, are always fetched. */
  clientDocuments: { most: 10, inS: 60 },
  clientDocumentsOfAll: { most: 60, inS: 60 },

  // Of addresses and connections.

  /** At 40 µs each, under 1 % of a core; the burst is for a cold start behind one proxy. Good keys do not count. */
  unknownKeys: { burst: 1000, perS: 200 },
  /** Bytes. A waiting tool holds its input even after its client hung up, so limiting connections would not suffice. */
  messages: { total: 64 * MIB },
  /** Bytes. Eighty of the largest lists over MCP, or thousands of events; twice as much takes the process above 256 MB. */
  unread: { total: 16 * MIB },
  /** At about 10 KB a quiet stream, 10 MB in all: far below what a small machine has. */
  streams: { total: 1000, each: 100 },
  /** Clients wait for responses, so they have few calls at once. */
  sessionCalls: { each: 256 },
  /** Each process of a service asks four times within the bound: 97 may at the default bound, 22 at the shortest. */
  askingForChanges: { burst: 800, perS: 400 },
} as const satisfies Readonly<Record<string, Limit>>;
