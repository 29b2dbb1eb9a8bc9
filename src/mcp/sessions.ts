// The sessions of HTTP+SSE: each is one open event stream, and ends with it. In memory, bounded in all, for each address
// and for each owner. A session belongs to the first valid credential that it sees.

import type { Reader } from '../calls/call.ts';
import type { EventStream } from '../http/sending/event-stream.ts';
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
  /** The calls under way, by request id, each with what cancels it. */
  readonly calls: Map<Id, AbortController>;
  /** Of their messages. */
  messageBytes: number;
  /** Where it was opened from: an IPv4 address, or an IPv6 /64. */
  readonly network: string;
  /** True once the client has sent a request. */
  used: boolean;
  /** Who gets its results, by what the client has declared. */
  reader: Reader;
  /** Who it belongs to; empty until the first valid credential. */
  owners: readonly string[];
  /** The owners' latest credentials, as hashes. */
  credentials: readonly string[];
}

/** A call under way. */
export interface SessionCall {
  readonly canceller: AbortController;
  end(): void;
}

export interface Sessions {
  /** Undefined if there is no room. */
  open(openStream: (onEnd: () => void) => EventStream, callers: Subjects, address: string): Session | undefined;
  has(id: string): boolean;
  /**
   * The session, if these callers may post to it: its owners, or anybody while it belongs to nobody. The first valid
   * credential makes it theirs. An owner's credential that is not valid any more may only call tools, to be told so.
   */
  find(id: string, callers: Subjects, isCall: boolean): Result<Session, Problem>;
  /** Takes a call of this session. Null: it has too many under way, or their messages are too long together. */
  beginCall(session: Session, id: Id, messageBytes: number): SessionCall | null;
  /** Ends each session as soon as none of its calls is under way, and opens no more. */
  drain(): void;
  readonly count: number;
}

/** Tokens are renewed, and one client may use several keys. */
const CREDENTIALS_MAX = 8;

/** Which sessions make room for a new one, the oldest first: those of nobody, then those that nobody has used. */
const MAKES_ROOM: readonly ((session: Session) => boolean)[] = [
  ({ owners }) => owners.length === 0,
  ({ used }) => !used,
];

export const NO_SESSION: Problem = { code: 'session_not_found' };

export function createSessions(): Sessions {
  const sessions = new Map<string, Session>(); // in the order of opening
  let draining = false;

  /** Leaves fewer than `most` of such sessions, if those that make room are enough. */
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

  /** For one more of these owners. */
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
        messageBytes: 0,
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
    beginCall(session, id, messageBytes) {
      const { calls, stream } = session;
      if (calls.size >= LIMITS.sessionCalls.each) return null;
      if (session.messageBytes + messageBytes > LIMITS.sessionMessages.each) return null;
      session.messageBytes += messageBytes;
      const canceller = new AbortController();
      calls.set(id, canceller);
      const end = () => {
        session.messageBytes -= messageBytes;
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
