// Waiting for a file that another process, or another connection of this one, has locked.

import { sleep } from '../../lib/timeout.ts';
import { codeOf } from '../native.ts';

/** While the file is locked, a statement is tried again until this long after it was asked for. */
export const RETRY_MS_MAX = 5000;
/** The random pause between two tries is up to this long. */
const RETRY_PAUSE_MS_MAX = 20;

const BUSY = /^SQLITE_(BUSY|LOCKED|PROTOCOL)/;

export const isBusy = (error: unknown): boolean => BUSY.test(codeOf(error));

export const pauseWhileBusy = (): Promise<void> => sleep(Math.random() * RETRY_PAUSE_MS_MAX);

/** Retries `run` while the file is locked. */
export async function retryBusy<T>(run: () => Promise<T>, forMs: number): Promise<T> {
  const startedAtMs = performance.now();
  for (;;) {
    try {
      return await run();
    } catch (error) {
      if (!isBusy(error) || performance.now() - startedAtMs > forMs) throw error;
      await pauseWhileBusy();
    }
  }
}
