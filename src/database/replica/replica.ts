// An embedded replica of the primary, for nearby reads: keeps it open and undamaged, and gives up on slow reads. The
// reader decides whether to trust a response, by the position of the change feed (database/feed.ts).

import { existsSync, statSync } from 'node:fs';
import { isLost, type ReachedPosition } from '../../lib/change-feed.ts';
import { expected } from '../../lib/expected.ts';
import { err, ok, type Result } from '../../lib/result.ts';
import type { Cancel, Clock } from '../../lib/runtime.ts';
import { singleFlight } from '../../lib/single-flight.ts';
import { withTimeout } from '../../lib/timeout.ts';
import type { Log } from '../../log/log.ts';
import { createOutageLog } from '../../log/outage.ts';
import type { Row, Statement } from '../database.ts';
import { readPage, readPosition } from '../feed.ts';
import { ownerFile } from './files.ts';
import type { ReplicaFailure, ReplicaReply, ReplicaRequest, ReplicaSource } from './worker.ts';

/** A read takes 0.1 ms. One that takes this long is queued behind something slow, and the primary is asked instead. */
const READ_MS_MAX = 30;
/** After a failure it is opened again, but no sooner than this. */
const OPEN_AGAIN_AFTER_MS = 2000;
/** Closing waits this long for a stuck thread. One that pulls thousands of changes takes a second or two. */
const CLOSE_MS_MAX = 3000;

/** `catching_up`: it responds, but does not have yet what its process knows of. */
export type ReplicaState = 'in_use' | 'catching_up' | 'not_in_use';

export interface Replica {
  /** Reads one statement; null when nothing here responds (in time). */
  read(statement: Statement): Promise<readonly Row[] | null>;
  /** Opens it, once the primary is known to respond. Does nothing while it is open or opening. */
  open(): void;
  /** Whether its responses count in a process that knows of everything up to `reached`. */
  state(reached: ReachedPosition): Promise<ReplicaState>;
  /** The primary was replaced: drops what is here, which belongs to the one before. */
  discard(): void;
  close(): Promise<void>;
}

export interface ReplicaOptions {
  readonly source: ReplicaSource;
  /** Reads from the primary; null when it doesn't respond. */
  readonly readPrimary: (statement: Statement) => Promise<readonly Row[] | null>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Throws if the file belongs to another program. */
export function createReplica({ source, readPrimary, clock, log }: ReplicaOptions): Replica {
  const { file } = source;
  if (isForeign(file)) {
    throw new Error(expected('DATABASE_REPLICA_FILE', 'a new file, or a replica made by this program', file));
  }
  const thread = createThread();
  const outage = createOutageLog(log, { on: 'replica not in use', eachReason: true });
  let state: 'closed' | 'opening' | 'open' | 'ended' = 'closed';
  let opening = 0; // counts, so that an opening that was overtaken stops
  let rebuild = false;
  let cancelOpening: Cancel | undefined;
  let here: ReachedPosition | null = null; // as it said last; null: nothing yet

  async function open(): Promise<void> {
    if (state !== 'closed') return;
    cancelOpening?.();
    state = 'opening';
    opening += 1;
    const mine = opening;
    const tried = await tryToOpen();
    if (mine !== opening || state !== 'opening') return;
    if (!tried.ok) return close(tried.error);
    void thread.ask({ follow: true });
    state = 'open';
    here = null;
    rebuild = false;
    outage.ended();
    log.info('replica opened', { kept: tried.value });
  }

  /**
   * True when the file of an earlier run is used again. It is compared with the primary before anything is pulled into
   * it: changes of another history, written over its pages, could make it look like this one.
   */
  async function tryToOpen(): Promise<Result<boolean, ReplicaFailure>> {
    const opened = await thread.ask({ open: source, rebuild });
    if ('failure' in opened) return err(opened.failure);
    const [{ kept }] = opened.rows as [{ kept: boolean }];
    let broken: ReplicaFailure | null = null;
    const found = await readPosition(async (statement) => {
      const reply = await thread.ask(statement);
      if ('rows' in reply) return reply.rows as readonly Row[];
      if (reply.failure.damaged) broken = reply.failure;
      return null;
    });
    if (broken !== null) return err(broken);
    if (found === null) return ok(kept); // nothing has arrived yet; what will arrive comes from this primary
    const there = await readPage(readPrimary, found.seq);
    if (there === null) return err({ reason: 'the primary is away', damaged: false });
    return isLost(found, there)
      ? err({ reason: 'it is of another database, or holds what its primary has lost', damaged: true })
      : ok(kept);
  }

  /** Takes the replica out of use until it is opened again, soon, and rebuilt if it was damaged. */
  function close({ reason, damaged }: ReplicaFailure): void {
    if (state === 'ended') return;
    state = 'closed';
    rebuild ||= damaged;
    outage.began(reason);
    cancelOpening?.();
    cancelOpening = clock.after(OPEN_AGAIN_AFTER_MS * (1 + Math.random()), openSoon);
  }

  function openSoon(): void {
    open().catch((bug) => log.error('replica not in use', { error: bug }));
  }

  async function read(statement: Statement): Promise<readonly Row[] | null> {
    if (state !== 'open') return null;
    const reply = await thread.askWithin(statement, READ_MS_MAX);
    if (reply === null) return null;
    if ('rows' in reply) return reply.rows as readonly Row[];
    if (reply.failure.damaged) close(reply.failure);
    return null;
  }

  /** One question at a time, for all who want to know. Without a response in time, the last one stands. */
  const position = singleFlight(async () => (here = (await readPosition(read)) ?? here));

  return {
    open: openSoon,
    read,
    async state(reached) {
      const found = state === 'open' ? await position.run() : null;
      if (state !== 'open') return 'not_in_use';
      return found?.databaseId === reached.databaseId && found.seq >= reached.seq ? 'in_use' : 'catching_up';
    },
    discard: () => close({ reason: 'the primary was replaced', damaged: true }),
    async close() {
      state = 'ended';
      cancelOpening?.();
      await thread.close();
    },
  };
}

/** A file without its owner's file beside it was made by another program. */
const isForeign = (file: string): boolean =>
  (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0 && !existsSync(ownerFile(file));

/** The worker as requests and replies. It is started with the first one. */
function createThread() {
  const waiting = new Map<number, (reply: ReplicaReply) => void>();
  let worker: Worker | undefined;
  let lastId = 0;
  let late = 0; // replies that came after their timeout

  function start(): Worker {
    const started = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
    started.onmessage = ({ data }: MessageEvent<{ id: number; reply: ReplicaReply }>) => {
      waiting.get(data.id)?.(data.reply);
      waiting.delete(data.id);
    };
    started.onerror = (event) => {
      for (const settle of waiting.values()) settle({ failure: { reason: event.message, damaged: true } });
      waiting.clear();
      worker = undefined;
    };
    return started;
  }

  function ask(request: ReplicaRequest): Promise<ReplicaReply> {
    worker ??= start();
    lastId += 1;
    worker.postMessage({ id: lastId, request });
    return new Promise((resolve) => waiting.set(lastId, resolve));
  }

  /** Null when there is no response in time, and at once while an earlier request that was late is still unanswered. */
  async function askWithin(request: ReplicaRequest, withinMs: number): Promise<ReplicaReply | null> {
    if (late > 0) return null;
    const asked = ask(request);
    const reply = await withTimeout(asked, withinMs, null);
    if (reply === null) {
      late += 1;
      void asked.then(() => {
        late -= 1;
      });
    }
    return reply;
  }

  return {
    ask,
    askWithin,
    async close() {
      if (worker === undefined) return;
      late = 0;
      await askWithin({ close: true }, CLOSE_MS_MAX);
      // A stuck thread is not terminated: ending one inside the driver ends the process.
    },
  };
}
