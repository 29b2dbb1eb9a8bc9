// Bounds the bytes that this process keeps for clients to read: one total for all large responses and event streams.
// Whoever reads too slowly is cut off (limits/min-rate.ts), sooner when others find no room.

import type { Clock } from '../../lib/runtime.ts';
import { LIMITS } from '../../limits/index.ts';
import { createTransfers, type Transfer } from '../../limits/min-rate.ts';
import type { Log } from '../../log/log.ts';

export interface Lease {
  readonly bytes: number;
  /** False, with nothing changed, when there is no room for the difference. */
  set(bytes: number): boolean;
  /** Counts bytes as read; the lease keeps its size. */
  read(bytes: number): void;
}

export interface SendBudget {
  /** Begins with nothing; `cut` ends the client's response at once. */
  lease(cut: () => void): Lease;
  readonly heldBytes: number;
}

export function createSendBudget(clock: Clock, log: Log, bytesMax: number = LIMITS.unread.total): SendBudget {
  const transfers = createTransfers(clock, log);
  let heldBytes = 0;

  function lease(cut: () => void): Lease {
    let ownBytes = 0;
    let readBytes = 0;
    let transfer: Transfer | undefined; // while there are bytes

    function put(bytes: number): void {
      heldBytes += bytes - ownBytes;
      ownBytes = bytes;
      if (bytes === 0) {
        transfer?.end();
        transfer = undefined;
      } else if (transfer === undefined) {
        readBytes = 0;
        transfer = transfers.watch(() => {
          log.info('slow client cut off', { heldBytes: ownBytes, readBytes });
          put(0);
          cut();
        });
      }
    }

    const hasRoomFor = (bytes: number) => heldBytes - ownBytes + bytes <= bytesMax;

    return {
      get bytes() {
        return ownBytes;
      },
      set(bytes) {
        if (bytes > ownBytes && !hasRoomFor(bytes)) {
          if (bytes > bytesMax) return false;
          transfers.makeRoom(transfer);
          if (!hasRoomFor(bytes)) return false;
        }
        put(bytes);
        return true;
      },
      read(bytes) {
        readBytes += bytes;
        transfer?.moved(bytes);
      },
    };
  }

  return {
    lease,
    get heldBytes() {
      return heldBytes;
    },
  };
}
