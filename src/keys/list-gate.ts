// Decides when a list may begin and go on, so that lists in memory are few and no user's lists hold up another's.
//
// A user has one list at a time, until its response has left. So in the queues for the places where lists are read each
// user stands once at most, which makes them a round robin of users, however many lists each of them asks for. Nearly
// all lists end with their first page; long ones have places of their own, for which the others need not wait.

import type { Clock } from '../lib/runtime.ts';

/** First pages read at the same time, each of 175 KB if all its keys have the largest scopes. */
const FIRST_PAGES_AT_ONCE = 6;
/** Long lists read at the same time, each a page of 200 KB, or 50 keys (store/queries.ts). */
const LONG_AT_ONCE = 2;
/** A list that waits this long for a turn is refused. */
const WAIT_MS_MAX = 5000;
/** Lists of one user that wait: more than an honest client asks for. */
const WAITING_PER_USER_MAX = 16;
/** Of all users together. */
const WAITING_MAX = 1000;

/** The turn of one list. */
export interface ListTurn {
  /** Asks to read more than the first page, from the beginning. False when there was no turn for that in time. */
  mayContinue(): Promise<boolean>;
  /** Everything has been read. */
  built(): void;
  /** The response has left, or there is none: once the list is built as well, the user's next one may begin. */
  left(): void;
}

export interface ListGate {
  /**
   * The list's turn, when it comes. Null when too many lists wait, or this one has waited too long. Lists for the same
   * response (a batch may have several) don't wait for each other to leave: they leave together.
   */
  enter(person: string, responseId: string): Promise<ListTurn | null>;
}

/** Tells one that waits whether it is its turn; if not, it has to go. */
type Settle = (admitted: boolean) => void;

/** Places taken in the order of asking. */
interface Places {
  free: number;
  readonly line: Settle[];
}

/** The lists of one user. */
interface Lane {
  /** The response whose turn it is, and how many of its lists have not left. */
  responseId: string;
  lists: number;
  /** Lists for other responses. */
  readonly line: Settle[];
}

export function createListGate(clock: Clock): ListGate {
  const lanes = new Map<string, Lane>(); // of users with a list
  const firstPages: Places = { free: FIRST_PAGES_AT_ONCE, line: [] };
  const longLists: Places = { free: LONG_AT_ONCE, line: [] };
  let waiting = 0;

  /** Who finds no room takes that of the last in the longest line of one user, if that is longer than `length`. */
  async function wait(line: Settle[], length: number): Promise<boolean> {
    if (waiting >= WAITING_MAX) {
      const longest = [...lanes.values()].reduce((a, b) => (b.line.length > a.line.length ? b : a)).line;
      if (longest.length <= length) return false;
      longest.pop()?.(false);
    }
    waiting += 1;
    return new Promise((resolve) => {
      const cancel = clock.after(WAIT_MS_MAX, () => {
        line.splice(line.indexOf(settle), 1);
        settle(false);
      });
      const settle: Settle = (admitted) => {
        cancel();
        waiting -= 1;
        resolve(admitted);
      };
      line.push(settle);
    });
  }

  async function take(places: Places): Promise<boolean> {
    if (places.free === 0) return wait(places.line, 0);
    places.free -= 1;
    return true;
  }

  function leave(places: Places): void {
    const next = places.line.shift();
    if (next === undefined) places.free += 1;
    else next(true);
  }

  /** The user's lane, when it is the turn of this response. */
  async function takeLane(person: string, responseId: string): Promise<Lane | null> {
    const lane = lanes.get(person) ?? { responseId, lists: 0, line: [] };
    if (lane.lists === 0 || lane.responseId === responseId) {
      lanes.set(person, lane);
      lane.lists += 1;
      return lane;
    }
    const length = lane.line.length + 1;
    if (length > WAITING_PER_USER_MAX || !(await wait(lane.line, length))) return null;
    lane.responseId = responseId;
    return lane;
  }

  function leaveLane(person: string, lane: Lane): void {
    lane.lists -= 1;
    if (lane.lists > 0) return;
    const next = lane.line.shift();
    if (next === undefined) {
      lanes.delete(person);
      return;
    }
    lane.lists = 1;
    lane.responseId = ''; // until the next one says whose it is
    next(true);
  }

  return {
    async enter(person, responseId) {
      const lane = await takeLane(person, responseId);
      if (lane === null) return null;
      if (!(await take(firstPages))) {
        leaveLane(person, lane);
        return null;
      }
      let reading: Places | null = firstPages;
      let isBuilt = false;
      let hasLeft = false;
      return {
        async mayContinue() {
          reading = null;
          leave(firstPages);
          if (!(await take(longLists))) return false;
          reading = longLists;
          return true;
        },
        built() {
          if (reading !== null) leave(reading);
          isBuilt = true;
          if (hasLeft) leaveLane(person, lane);
        },
        left() {
          hasLeft = true;
          if (isBuilt) leaveLane(person, lane);
        },
      };
    },
  };
}
