// Bounds the bytes that this process holds for clients to read: one budget for all large responses and event streams.
// A client that reads too slowly is cut off, sooner when others need the room, so that no client can use the budget up
// for long.

import type { Cancel, Clock } from '../../lib/runtime.ts';
import { every } from '../../lib/timeout.ts';
import type { Log } from '../../log/log.ts';

/** For all clients together: a few of the largest lists, or thousands of ordinary events. */
const BUDGET_BYTES = 32 * 1024 * 1024;
/** A client has this long before its speed counts: to wake up, or to cross a gap in its network. */
const GRACE_MS = 10_000;
/** Who has read less than this on average after GRACE_MS is cut off, and who has read nothing for as long. */
const BYTES_PER_S_MIN = 32 * 1024;
/** No client is cut off to make room before this: a client that reads at all has read a response by then. */
const CUT_FOR_ROOM_AFTER_MS = 1000;
/** One timer looks after all holdings. */
const LOOK_EVERY_MS = 1000;

/** What is held for one client. */
export interface Holding {
  /** Says how many bytes are held now. False, with nothing changed, when the budget has no room for the difference. */
  set(bytes: number): boolean;
  /** Counts bytes as read, whether fewer are held then or not. */
  read(bytes: number): void;
  /** Ends the holding. May be called again. */
  release(): void;
}

export interface SendBudget {
  /** Begins to hold nothing; `cut` ends the client's response at once, and must lead to `release`. */
  open(cut: () => void): Holding;
  /** Bytes held for all clients. */
  readonly heldBytes: number;
}

interface Entry {
  bytes: number;
  readBytes: number;
  /** When bytes were first held, after none. */
  sinceMs: number;
  /** When some of them were last read; at first, when they were first held. */
  readAtMs: number;
  readonly cut: () => void;
}

export function createSendBudget(clock: Clock, log: Log, budgetBytes = BUDGET_BYTES): SendBudget {
  const entries = new Set<Entry>(); // those that hold bytes
  let heldBytes = 0;
  let stopLooking: Cancel | undefined;

  function put(entry: Entry, bytes: number): void {
    heldBytes += bytes - entry.bytes;
    if (entry.bytes === 0 && bytes > 0) {
      entry.sinceMs = clock.monotonicMs();
      entry.readAtMs = entry.sinceMs;
      entry.readBytes = 0;
      entries.add(entry);
      stopLooking ??= every(clock, LOOK_EVERY_MS, look);
    }
    if (bytes === 0) entries.delete(entry);
    entry.bytes = bytes;
    if (entries.size === 0) {
      stopLooking?.();
      stopLooking = undefined;
    }
  }

  function cut(entry: Entry): void {
    log.info('slow client cut off', { heldBytes: entry.bytes, readBytes: entry.readBytes });
    put(entry, 0); // at once: `cut` may take a while to lead to `release`
    entry.cut();
  }

  function look(): void {
    const nowMs = clock.monotonicMs();
    for (const entry of entries) {
      const dueBytes = ((nowMs - entry.sinceMs - GRACE_MS) / 1000) * BYTES_PER_S_MIN;
      // The average alone would long bear with a client whose kernel took megabytes at once.
      if (entry.readBytes < dueBytes || nowMs - entry.readAtMs > GRACE_MS) cut(entry);
    }
  }

  /** Cuts off the slowest until there is room for `bytes` more. */
  function makeRoom(bytes: number, for_: Entry): boolean {
    if (bytes > budgetBytes) return false;
    while (heldBytes + bytes > budgetBytes) {
      const slowest = slowestBut(for_);
      if (slowest === undefined) return false;
      cut(slowest);
    }
    return true;
  }

  function slowestBut(other: Entry): Entry | undefined {
    const nowMs = clock.monotonicMs();
    const speedOf = ({ readBytes, sinceMs }: Entry) => readBytes / (nowMs - sinceMs);
    let slowest: Entry | undefined;
    for (const entry of entries) {
      if (entry === other || nowMs - entry.sinceMs < CUT_FOR_ROOM_AFTER_MS) continue;
      if (slowest === undefined || speedOf(entry) < speedOf(slowest)) slowest = entry;
    }
    return slowest;
  }

  return {
    open(cutOff) {
      const entry: Entry = { bytes: 0, readBytes: 0, sinceMs: 0, readAtMs: 0, cut: cutOff };
      return {
        set(bytes) {
          const more = bytes - entry.bytes;
          if (more > 0 && heldBytes + more > budgetBytes && !makeRoom(more, entry)) return false;
          put(entry, bytes);
          return true;
        },
        read(bytes) {
          entry.readBytes += bytes;
          entry.readAtMs = clock.monotonicMs();
        },
        release: () => put(entry, 0),
      };
    },
    get heldBytes() {
      return heldBytes;
    },
  };
}
