// A local replica of the keys for reads: a file that follows the primary's change feed (replication.ts). The reader decides
// by its position whether to trust a response (store/key-reads.ts): a replica that lags, or lacks a key, only costs a read
// of the primary.

import { type Repeated, repeat } from '../../ground/background.ts';
import { hasReached, type ReachedPosition } from '../../ground/change-feed.ts';
import { isOutage } from '../../ground/result.ts';
import type { Clock } from '../../ground/runtime.ts';
import { reasonOf } from '../../ground/text.ts';
import type { ReplicaReader } from '../../keys/store.ts';
import type { Database, Row, Statement } from '../../store/database.ts';
import { type FilePlace, placeOf } from '../../store/embedded/open.ts';
import { createFileThread } from '../../store/embedded/thread.ts';
import type { ReplicaOptions } from '../../store/remote/open.ts';
import type { Log } from '../../watch/log.ts';
import { createOutageLog, type OutageLog } from '../../watch/outage.ts';
import { openInPlace, openReplica, refuseForeign } from './replica-file.ts';
import { followOn, POSITION, positionOf, type Step } from './replication.ts';
import type { Read } from './row-copy.ts';

/** How often it follows. While it lags, unknown keys are read from the primary, which costs a few reads. */
const FOLLOW_EVERY_MS = 1000;

/** `catching_up`: it responds, but lags behind what its process has seen. */
type ReplicaState = 'in_use' | 'catching_up' | 'not_in_use';

/** `kept`: the file's contents at opening are still there. `replaced`: they belong to the previous primary. */
type State =
  | { readonly is: 'not_open'; readonly isDamaged: boolean }
  | { readonly is: 'copying'; readonly local: Database; readonly kept: boolean }
  | { readonly is: 'in_use'; readonly local: Database }
  | { readonly is: 'replaced'; readonly local: Database };

const AWAY = 'the primary is away';
const REPLACED = 'the primary was replaced';
const LOST = 'it is of another database, or holds what its primary has lost';
const DISPLACED = 'its file was moved, removed, replaced or cut';
const DAMAGED = 'its file is damaged';

/** Creates a replica that is opened later. Throws if the file belongs to another program, or is a database of keys. */
export function createReplica(options: ReplicaOptions): Replica {
  refuseForeign(options.file);
  return new Replica(options);
}

export class Replica {
  /** Opens it, once the primary is known to respond. */
  readonly open: () => void;
  readonly #file: string;
  readonly #readPrimary: Read;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #outage: OutageLog;
  readonly #following: Repeated;
  #state: State = { is: 'not_open', isDamaged: false };
  /** Where its files were when they were opened. */
  #place: FilePlace | null = null;
  /** Whether the path is another version's now, so that no thread could open the file. */
  #isAlone = false;
  #isStopping = false;

  constructor({ file, readPrimary, clock, log }: ReplicaOptions) {
    this.#file = file;
    this.#clock = clock;
    this.#log = log;
    this.#readPrimary = async (statement) => {
      if (this.#isStopping) throw new Error('it is closed'); // ends the step under way
      return readPrimary(statement).catch((error) => {
        throw new Error(AWAY, { cause: error });
      });
    };
    this.#outage = createOutageLog(log, { on: 'replica not in use', eachReason: true });
    const repeated = { everyMs: FOLLOW_EVERY_MS, firstMs: null, clock, log, event: 'replica not in use' };
    this.#following = repeat(repeated, () => this.#followAll());
    this.open = this.#following.runNow;
  }

  /**
   * Reads one statement; null if the replica does not respond, or is elsewhere than its reader. Ahead of that, it may hold
   * what the primary has lost meanwhile.
   */
  async read(statement: Statement, { at, onAhead }: ReplicaReader): Promise<readonly Row[] | null> {
    const position = await this.#position();
    if (position === null) return null;
    if (isSame(position, at)) return this.#readFile(statement);
    if (hasReached(position, at)) onAhead();
    return null;
  }

  async #position(): Promise<ReachedPosition | null> {
    const [row] = (await this.#readFile(POSITION)) ?? [];
    return row === undefined ? null : positionOf(row);
  }

  async #readFile(statement: Statement): Promise<readonly Row[] | null> {
    if (this.#state.is !== 'in_use') return null;
    try {
      return await this.#state.local.read(statement);
    } catch (error) {
      this.#failed(error);
      return null;
    }
  }

  /** Returns whether its responses are recent enough for a process that has seen everything up to `reached`. */
  state = async (reached: ReachedPosition): Promise<ReplicaState> => {
    const position = await this.#position();
    if (position === null) return 'not_in_use';
    return hasReached(position, reached) ? 'in_use' : 'catching_up';
  };

  /** Drops the replica's data after the primary was replaced. */
  discard(): void {
    if (this.#state.is !== 'not_open') this.#state = { is: 'replaced', local: this.#state.local };
    this.#following.runNow();
  }

  async close(): Promise<void> {
    this.#isStopping = true;
    this.#following.stop();
    await this.#following.underWay;
    if (this.#state.is !== 'not_open') await this.#state.local.close();
  }

  async #followAll(): Promise<void> {
    try {
      let local: Database;
      let step: Step;
      do {
        local = await this.#opened();
        const before = this.#state;
        const startWriting = this.#isAlone ? null : () => createFileThread(this.#file);
        const following = { local, startWriting, readPrimary: this.#readPrimary, clock: this.#clock };
        step = await followOn(following, before.is === 'replaced');
        if ((step === 'begun' || step === 'begun_anew') && this.#state === before) this.#begun(local, step, before);
      } while (step !== 'done');
      if (!this.#isStopping) this.#reached(local);
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Opens the file, if it isn't open, or if another has taken its place: threads would write to that one. */
  async #opened(): Promise<Database> {
    const displaced = this.#place?.displaced() ?? null;
    const other = displaced === 'file' ? await openInPlace(this.#file) : null;
    this.#isAlone = displaced === 'file' && other === null;
    if (displaced === 'log' || other !== null) {
      this.#outage.began(DISPLACED);
      this.#drop(displaced === 'log');
    }
    if (this.#state.is !== 'not_open') return this.#state.local;
    const local = other ?? (await openReplica(this.#file, this.#state.isDamaged));
    this.#place = placeOf(this.#file, local.logBytes);
    this.#state = { is: 'copying', local, kept: true };
    return local;
  }

  /** Closes the file, which is opened again next time. */
  #drop(isDamaged: boolean): void {
    if (this.#state.is !== 'not_open') void this.#state.local.close(); // its connection at once, its threads when they end
    this.#place = null;
    this.#state = { is: 'not_open', isDamaged };
  }

  #begun(local: Database, step: Step, before: State): void {
    if (step === 'begun_anew') this.#outage.began(before.is === 'replaced' ? REPLACED : LOST);
    this.#state = { is: 'copying', local, kept: false };
  }

  /** Notes that everything the primary had a moment ago is here. */
  #reached(local: Database): void {
    if (this.#state.is === 'copying') this.#log.info('replica opened', { kept: this.#state.kept });
    else if (this.#state.is === 'in_use' && this.#outage.isOn) this.#log.info('replica opened', { kept: true });
    this.#outage.ended();
    if (this.#state.is !== 'replaced') this.#state = { is: 'in_use', local };
  }

  /** Notes a failure. A primary that is away leaves the replica in use. */
  #failed(error: unknown): void {
    if (this.#isStopping) return;
    const isAway = error instanceof Error && error.message === AWAY;
    if (isAway && this.#state.is === 'in_use') return;
    // Cut to nothing, it has no tables.
    const isDamaged = isOutage(error, 'damaged') || isOutage(error, 'no_schema');
    this.#outage.began(isDamaged ? DAMAGED : reasonOf(error));
    if (isDamaged) this.#drop(true);
  }
}

/** Returns whether readers at both positions have seen the same. */
const isSame = (one: ReachedPosition, other: ReachedPosition): boolean =>
  one.databaseId === other.databaseId && one.seq === other.seq && one.mark === other.mark;
