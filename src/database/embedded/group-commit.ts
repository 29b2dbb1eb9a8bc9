// One commit for the writes that wait at the same moment: each has to wait for the disk, and eight together wait little
// longer than one. None is answered before the commit. One that fails takes none with it: the whole transaction is
// undone, the connection replaced, and each of the group runs again in a transaction of its own. A savepoint would keep
// a connection on which a statement has failed (native.ts), and cost every write 9 µs.

import { nextTurn } from '../../lib/timeout.ts';
import type { Statement, Written } from '../database.ts';
import type { Connection } from './connection.ts';
import { isBusy, pauseWhileBusy, RETRY_MS_MAX, type Turns } from './waiting.ts';

/** With eight, the disk's part of a write is small, and the event loop held up for a millisecond. */
const GROUP_MAX = 8;
/** A group of slow statements ends after this much work. */
const GROUP_MS_MAX = 2;

interface Waiting {
  readonly statement: Statement;
  readonly untilMs: number;
  /** In a transaction of its own, because one of its group failed. */
  alone: boolean;
  resolve(written: Written): void;
  reject(error: unknown): void;
}

/** Runs statements in shared transactions. Rejects with a statement's own error, or when the file stays locked. */
export function createGroupCommit({ transact }: Connection, turns: Turns) {
  const waiting: Waiting[] = [];
  let running = false;

  async function commitAll(): Promise<void> {
    running = true;
    while (waiting.length > 0) {
      await nextTurn(); // who writes in this turn of the event loop comes into the same group
      const busy = await turns(commitNext);
      if (busy === null) continue;
      giveUpLate(busy);
      await pauseWhileBusy();
    }
    running = false;
  }

  /** Never throws. Returns the error if the file is locked: nothing was written then, and all wait on. */
  function commitNext(): unknown {
    const group = waiting[0]?.alone ? waiting.slice(0, 1) : waiting.slice(0, GROUP_MAX);
    let written: readonly Written[] = [];
    try {
      written = transact(({ run }) => inTime(group, run));
    } catch (error) {
      if (isBusy(error)) return error;
      if (group.length === 1) waiting.shift()?.reject(error);
      for (const one of group) one.alone = true;
      return null;
    }
    for (const result of written) waiting.shift()?.resolve(result);
    return null;
  }

  function giveUpLate(error: unknown): void {
    const nowMs = performance.now();
    while (waiting[0] !== undefined && waiting[0].untilMs < nowMs) waiting.shift()?.reject(error);
  }

  return (statement: Statement): Promise<Written> =>
    new Promise((resolve, reject) => {
      waiting.push({ statement, untilMs: performance.now() + RETRY_MS_MAX, alone: false, resolve, reject });
      if (!running) void commitAll();
    });
}

function inTime(group: readonly Waiting[], run: (statement: Statement) => Written): readonly Written[] {
  const endMs = performance.now() + GROUP_MS_MAX;
  const written: Written[] = [];
  for (const { statement } of group) {
    written.push(run(statement));
    if (performance.now() > endMs) break;
  }
  return written;
}
