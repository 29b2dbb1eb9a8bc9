// Waits, for some time or for a promise, in real time: sockets, disks and threads follow no clock that a test moves.

import { type Cancel, systemClock } from './runtime.ts';

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => void systemClock.after(ms, resolve));

/** The next turn of the event loop, after whatever has come in by then. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** What `promise` resolves to, or `fallback` when that takes longer than `ms`. */
export async function withTimeout<T, Fallback>(
  promise: Promise<T>,
  ms: number,
  fallback: Fallback,
): Promise<T | Fallback> {
  let cancel: Cancel | undefined;
  const timeout = new Promise<Fallback>((resolve) => {
    cancel = systemClock.after(ms, () => resolve(fallback));
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    cancel?.();
  }
}
