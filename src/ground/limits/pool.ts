// Bounds the bytes that slow clients make this process hold: bodies that arrive slowly, responses read slowly. When there
// is no room for another, clients that have moved nothing for longest are cut off.

import type { Clock } from '../runtime.ts';
import type { Bounds } from './semaphore.ts';

export interface Held {
  /** Holds this many bytes from now on. Returns false, with nothing changed, if there is no room. */
  hold(bytes: number): boolean;
  /** Notes that the client has sent or received so many bytes. */
  moved(bytes: number): void;
  /** Notes that everything has arrived, so that cutting the client off would release nothing. */
  keep(): void;
}

/** Registers a transfer. `cut` ends it at once; by then it holds nothing. */
export type Pool = (cut: () => void) => Held;

/** A client that moves STEP_BYTES within this time is not cut off. */
const PATIENCE_MS = 1000;
/** Fewer bytes don't count as movement: a byte now and then would hold room for ever. */
const STEP_BYTES = 16 * 1024;

interface Transfer {
  readonly cut: () => void;
  bytes: number;
  /** Bytes since movement last counted. */
  movedBytes: number;
  movedAtMs: number;
}

export function createPool({ total }: Pick<Bounds, 'total'>, clock: Clock): Pool {
  const stillestFirst = new Set<Transfer>(); // transfers that hold something and may be cut off
  let taken = 0;

  function set(transfer: Transfer, bytes: number): void {
    taken += bytes - transfer.bytes;
    transfer.bytes = bytes;
    if (bytes === 0) stillestFirst.delete(transfer);
  }

  function makeRoom(bytes: number, but: Transfer): boolean {
    if (bytes > total) return false;
    const movedBeforeMs = clock.monotonicMs() - PATIENCE_MS;
    for (const transfer of stillestFirst) {
      if (taken + bytes <= total || transfer.movedAtMs > movedBeforeMs) break;
      if (transfer === but) continue;
      set(transfer, 0);
      transfer.cut();
    }
    return taken + bytes <= total;
  }

  function touch(transfer: Transfer): void {
    transfer.movedBytes = 0;
    transfer.movedAtMs = clock.monotonicMs();
    stillestFirst.delete(transfer);
    stillestFirst.add(transfer);
  }

  return (cut) => {
    const transfer: Transfer = { cut, bytes: 0, movedBytes: 0, movedAtMs: 0 };
    return {
      hold(bytes) {
        if (bytes > transfer.bytes && !makeRoom(bytes - transfer.bytes, transfer)) return false;
        if (transfer.bytes === 0 && bytes > 0) touch(transfer); // it begins
        set(transfer, bytes);
        return true;
      },
      moved(bytes) {
        transfer.movedBytes += bytes;
        if (transfer.movedBytes >= STEP_BYTES && stillestFirst.has(transfer)) touch(transfer);
      },
      keep: () => void stillestFirst.delete(transfer),
    };
  };
}
