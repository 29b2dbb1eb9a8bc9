// Bounds the bytes that slow clients make this process hold: bodies that arrive slowly, responses read slowly. When there
// is no room for another, clients that have moved nothing for longest are cut off.

import type { Clock } from '../runtime.ts';
import type { Bounds } from './semaphore.ts';

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

export type Pool = ReturnType<typeof createPool>;
export type Held = ReturnType<Pool>;

export function createPool({ total }: Pick<Bounds, 'total'>, clock: Clock) {
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

  /** Registers a transfer. `cut` ends it at once; by then it holds nothing. */
  return (cut: () => void) => {
    const transfer: Transfer = { cut, bytes: 0, movedBytes: 0, movedAtMs: 0 };
    return {
      /** Returns how many bytes it holds. */
      get bytes() {
        return transfer.bytes;
      },
      /** Holds this many bytes from now on. Returns false, with nothing changed, if there is no room. */
      hold(bytes: number): boolean {
        if (bytes > transfer.bytes && !makeRoom(bytes - transfer.bytes, transfer)) return false;
        if (transfer.bytes === 0 && bytes > 0) touch(transfer); // it begins
        set(transfer, bytes);
        return true;
      },
      /** Notes that the client has sent or received so many bytes. */
      moved(bytes: number): void {
        transfer.movedBytes += bytes;
        if (transfer.movedBytes >= STEP_BYTES && stillestFirst.has(transfer)) touch(transfer);
      },
      /** Notes that everything has arrived, so that cutting the client off would release nothing. */
      keep: (): void => void stillestFirst.delete(transfer),
    };
  };
}
