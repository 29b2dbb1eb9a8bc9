// The sessions of HTTP+SSE, in memory: each is one open event stream, and ends with it. Bounded in all, for each
// address and for each owner. A session belongs to the first valid credential that it sees.

import type { Reader } from '../calls/call.ts';
import type { EventStream } from '../http/stream.ts';
import { networkOf } from '../lib/ip.ts';
import { err, ok, type Result } from '../lib/result.ts';
import { LIMITS } from '../limits/index.ts';
import { OVERLOADED, type Problem } from '../problem.ts';
import type { Id } from './message.ts';
import type { Subjects } from './subjects.ts';

const { total: SESSIONS_MAX, each: SESSIONS_MAX_EACH } = LIMITS.streams;

export interface Session {
  readonly id: string;
  readonly stream: EventStream;
  /** The calls under way, by request id, each with its canceller. */
  readonly calls: Map<Id, AbortController>;
  /** The client's IPv4 address or IPv6 /64. */
  readonly network: string;
  used: boolean;
  /** By the capabilities that the client declared. */
  reader: Reader;
  /** Empty until the first valid credential. */
  owners: readonly string[];
  /** Hashes of the owners' latest credentials. */
  credentials: readonly string[];
}

export interface SessionCall {
  readonly canceller: AbortController;
  end(): void;
}

export interface Sessions {
  open(openStream: (onEnd: () => void) => EventStream, callers: Subjects, address: string): Session | undefined;
  has(id: string): boolean;
  /**
   * The session if these callers may post to it: its owners, or anybody while it has none, whom a valid credential
   * makes its owners. With an owner's credential that has ended only calls are accepted, whose responses say so.
   */
  find(id: string, callers: Subjects, isCall: boolean): Result<Session, Problem>;
  /** Null: the session has too many calls under way. */
  beginCall(session: Session, id: Id): SessionCall | null;
  /** Ends each session as soon as it has no calls under way, and opens no more. */
  drain(): void;
  readonly count: number;
}

/** Of a session: tokens are renewed, and a client may use several keys. */
const CREDENTIALS_MAX = 8;

/** Sessions to close for a new one, the oldest first: those without owner, then those that nobody has used. */
const MAKES_ROOM: readonly ((session: Session) => boolean)[] = [
  ({ owners }) => owners.length === 0,
  ({ used }) => !used,
];

export const NO_SESSION: Problem = { code: 'session_not_found' };

export function createSessions(): Sessions {
  const sessions = new Map<string, Session>(); // in the order of opening
  let draining = false;

  /** Closes one of those if there are `most`. False: none of them may be closed. */
  function makeRoom(isSuch: (session: Session) => boolean, most: number): boolean {
    const among = [...sessions.values()].filter(isSuch);
    if (among.length < most) return true;
    for (const makesRoom of MAKES_ROOM) {
      const oldest = among.find(makesRoom);
      if (oldest === undefined) continue;
      oldest.stream.close();
      return true;
    }
    return false;
  }

  const makeRoomForOwners = (subjects: readonly string[]): boolean =>
    subjects.every((subject) => makeRoom(({ owners }) => owners.includes(subject), SESSIONS_MAX_EACH));

  const makeRoomFor = (network: string, subjects: readonly string[]): boolean =>
    makeRoom((session) => session.network === network, SESSIONS_MAX_EACH) &&
    makeRoomForOwners(subjects) &&
    makeRoom(() => true, SESSIONS_MAX);

  return {
    open(openStream, { subjects, valid }, address) {
      const network = networkOf(address);
      if (draining || !makeRoomFor(network, subjects)) return undefined;
      const id = crypto.randomUUID();
      const session: Session = {
        id,
        stream: openStream(() => sessions.delete(id)),
        calls: new Map(),
        network,
        used: false,
        reader: 'model',
        owners: subjects,
        credentials: valid,
      };
      sessions.set(id, session);
      return session;
    },
    has: (id) => sessions.has(id),
    find(id, { subjects, unknown, valid, wrong }, isCall) {
      const session = sessions.get(id);
      if (session === undefined) return err(NO_SESSION);
      const { owners, credentials } = session;
      if (!subjects.some((subject) => owners.includes(subject))) {
        if (unknown !== null) return err(unknown);
        const hasEnded = subjects.length === 0 && wrong.some((credential) => credentials.includes(credential));
        if (owners.length > 0) return isCall && hasEnded ? ok(session) : err(NO_SESSION);
        if (!makeRoomForOwners(subjects)) return err(OVERLOADED);
        session.owners = subjects;
      }
      const newer = valid.filter((credential) => !credentials.includes(credential));
      if (newer.length > 0) session.credentials = [...credentials, ...newer].slice(-CREDENTIALS_MAX);
      return ok(session);
    },
    beginCall(session, id) {
      const { calls, stream } = session;
      if (calls.size >= LIMITS.sessionCalls.each) return null;
      const canceller = new AbortController();
      calls.set(id, canceller);
      const end = () => {
        calls.delete(id);
        if (draining && calls.size === 0) stream.close();
      };
      return { canceller, end };
    },
    drain() {
      draining = true;
      for (const session of sessions.values()) if (session.calls.size === 0) session.stream.close();
    },
    get count() {
      return sessions.size;
    },
  };
}
