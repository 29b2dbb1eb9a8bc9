// What clients make this process hold: bodies that come slowly, responses that are read slowly. When another finds no
// room, those whose clients have moved nothing for the longest time are cut off.

import type { Clock } from '../runtime.ts';
import type { Bounds } from './semaphore.ts';

export interface Held {
  /** Holds so many bytes from now on. False, with nothing changed, when there is no room for them. */
  hold(bytes: number): boolean;
  /** Notes that the client has sent or taken so many bytes. */
  moved(bytes: number): void;
  /** Notes that what it holds has arrived, so that cutting its client off would release nothing. */
  keep(): void;
}

/** `cut` ends the transfer at once; by then it holds nothing. */
export type Pool = (cut: () => void) => Held;

/** A client that moves STEP_BYTES within this time is not cut off. */
const PATIENCE_MS = 1000;
/** Fewer don't count as movement: a byte now and then would hold room for good. */
const STEP_BYTES = 16 * 1024;

interface Transfer {
  readonly cut: () => void;
  bytes: number;
  /** Since movement last counted. */
  movedBytes: number;
  movedAtMs: number;
}

export function createPool({ total }: Pick<Bounds, 'total'>, clock: Pick<Clock, 'monotonicMs'>): Pool {
  const stillestFirst = new Set<Transfer>(); // those that hold something and may be cut off
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
