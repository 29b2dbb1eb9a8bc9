// A minimum rate for transfers (Kestrel's MinDataRate): whoever moves fewer bytes a second, after a grace, is cut off,
// so that nobody holds memory for long by reading or sending slowly. One timer serves all.

import { type ErrorLog, every } from '../lib/background.ts';
import type { Cancel, Clock } from '../lib/runtime.ts';

const BYTES_PER_S = 32 * 1024;
/** Before the rate counts: to wake up, or to bridge a network gap. A pause this long without a byte ends it, too. */
const GRACE_MS = 10_000;
/** The grace when others find no room: a client that reads at all has moved many bytes by then. */
const GRACE_WITHOUT_ROOM_MS = 1000;

const LOOK_EVERY_MS = 1000;

export interface Transfer {
  moved(bytes: number): void;
  /** It is over. May be called again. */
  end(): void;
}

export interface Transfers {
  /** Watches a transfer until it ends. If it is too slow, it is ended, and `cut` is called. */
  watch(cut: () => void): Transfer;
  /** Cuts off all that are too slow with the short grace, except `but`. For when others find no room. */
  makeRoom(but?: Transfer): void;
}

interface Watched extends Transfer {
  readonly sinceMs: number;
  movedAtMs: number;
  movedBytes: number;
  readonly cut: () => void;
}

export function createTransfers(clock: Clock, log: ErrorLog): Transfers {
  const looks = { everyMs: LOOK_EVERY_MS, clock, log, event: 'slow clients not cut off' };
  const watched = new Set<Watched>();
  let stopLooking: Cancel | undefined;

  /** By the average alone, a client whose kernel took megabytes at once would be spared for long. */
  function isTooSlow({ sinceMs, movedAtMs, movedBytes }: Watched, nowMs: number, graceMs: number): boolean {
    const dueBytes = ((nowMs - sinceMs - graceMs) / 1000) * BYTES_PER_S;
    return movedBytes < dueBytes || nowMs - movedAtMs > graceMs;
  }

  function cutSlow(graceMs: number, but?: Transfer): void {
    const nowMs = clock.monotonicMs();
    for (const transfer of watched) {
      if (transfer === but || !isTooSlow(transfer, nowMs, graceMs)) continue;
      transfer.end();
      transfer.cut();
    }
  }

  return {
    watch(cut) {
      const sinceMs = clock.monotonicMs();
      const transfer: Watched = {
        sinceMs,
        movedAtMs: sinceMs,
        movedBytes: 0,
        cut,
        moved(bytes) {
          transfer.movedBytes += bytes;
          transfer.movedAtMs = clock.monotonicMs();
        },
        end() {
          watched.delete(transfer);
          if (watched.size > 0) return;
          stopLooking?.();
          stopLooking = undefined;
        },
      };
      watched.add(transfer);
      stopLooking ??= every(looks, () => cutSlow(GRACE_MS));
      return transfer;
    },
    makeRoom: (but) => cutSlow(GRACE_WITHOUT_ROOM_MS, but),
  };
}
