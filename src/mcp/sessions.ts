// Keeps the sessions of HTTP+SSE in memory. Each is one open event stream and ends with it. Bounded in all, for each
// address and each owner. A session's owners come from its first valid credentials.

import { presentedKey } from '../calls/api-key.ts';
import { type Identity, isWrong } from '../calls/identify.ts';
import { networkOf } from '../ground/ip.ts';
import { LIMITS } from '../ground/limits/index.ts';
import { OVERLOADED, type Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Sha256 } from '../ground/runtime.ts';
import type { JsonObject } from '../ground/text.ts';
import type { Credentials } from '../web/context.ts';
import type { EventStream } from '../web/stream.ts';
import { NO_CAPABILITIES } from './era.ts';
import type { Id } from './message.ts';

const { total: SESSIONS_MAX, each: SESSIONS_MAX_EACH } = LIMITS.streams;

export interface Session {
  readonly id: string;
  readonly stream: EventStream;
  /** The cancellers of the calls in progress, by request id. */
  readonly calls: Map<Id, AbortController>;
  /** The client's IPv4 address or IPv6 /64. */
  readonly network: string;
  used: boolean;
  /** The declared capabilities that the server uses. */
  capabilities: JsonObject;
  /** Empty until the first valid credential. */
  owners: readonly string[];
  /** The hashes of the credentials that made the session somebody's. */
  credentials: readonly string[];
}

/** The sender of a request, by its credentials. */
export interface Visitor {
  /** The owner of each valid credential. */
  readonly subjects: readonly string[];
  /** Why a credential can't be verified now; null: `subjects` is complete. */
  readonly unknown: Problem | null;
  /** The hashes of all credentials. */
  readonly credentials: readonly string[];
}

export function asVisitor({ user, key }: Identity, credentials: Credentials, sha256: Sha256): Visitor {
  const verdicts = [user, key].filter((verdict) => verdict !== null);
  const refused = verdicts.flatMap((verdict) => (verdict.ok ? [] : verdict.error));
  return {
    subjects: verdicts.flatMap((verdict) => (verdict.ok ? verdict.value.subject : [])),
    unknown: refused.find((problem) => !isWrong(problem)) ?? null,
    credentials: [credentials.bearer, presentedKey(credentials)].flatMap((credential) =>
      credential === null ? [] : sha256(credential, 'base64url'),
    ),
  };
}

export interface Sessions {
  open(openStream: (onEnd: () => void) => EventStream, visitor: Visitor, address: string): Session | undefined;
  has(id: string): boolean;
  /**
   * Returns the session if the visitor may post to it. While it has no owner anybody may, and a valid credential makes
   * the visitor its owner. After its first credential has ended, that still admits calls, whose responses say so.
   */
  find(id: string, visitor: Visitor, isCall: boolean): Result<Session, Problem>;
  /** Adds a call. Returns null if the session has too many in progress. */
  beginCall(session: Session, id: Id): AbortController | null;
  endCall(session: Session, id: Id): void;
  /** Ends each session as soon as it has no calls in progress, and opens no more. */
  drain(): void;
  readonly count: number;
}

/** Which sessions to evict for a new one, the oldest first: those without owner, then unused ones. */
const EVICTABLE: readonly ((session: Session) => boolean)[] = [
  ({ owners }) => owners.length === 0,
  ({ used }) => !used,
];

export const NO_SESSION: Problem = { code: 'session_not_found' };

/** Returns whether the visitor presents one of the session's first credentials, and none is valid any more. */
const hasEnded = (session: Session, { subjects, credentials }: Visitor): boolean =>
  subjects.length === 0 && credentials.some((credential) => session.credentials.includes(credential));

export function createSessions(): Sessions {
  const sessions = new Map<string, Session>(); // oldest first
  let draining = false;

  /** Evicts one of the matching sessions if there are `most`. Returns false if none of them may be evicted. */
  function makeRoom(matches: (session: Session) => boolean, most: number): boolean {
    const among = [...sessions.values()].filter(matches);
    if (among.length < most) return true;
    for (const isEvictable of EVICTABLE) {
      const oldest = among.find(isEvictable);
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

  /** Makes the visitor the session's owner, if the credentials are valid. */
  function claimed(session: Session, { subjects, credentials }: Visitor): Result<Session, Problem> {
    if (!makeRoomForOwners(subjects)) return err(OVERLOADED);
    session.owners = subjects;
    if (subjects.length > 0) session.credentials = credentials;
    return ok(session);
  }

  return {
    open(openStream, { subjects, credentials }, address) {
      const network = networkOf(address);
      if (draining || !makeRoomFor(network, subjects)) return undefined;
      const id = crypto.randomUUID();
      const session: Session = {
        id,
        stream: openStream(() => sessions.delete(id)),
        calls: new Map(),
        network,
        used: false,
        capabilities: NO_CAPABILITIES,
        owners: subjects,
        credentials: subjects.length > 0 ? credentials : [],
      };
      sessions.set(id, session);
      return session;
    },
    has: (id) => sessions.has(id),
    find(id, visitor, isCall) {
      const session = sessions.get(id);
      if (session === undefined) return err(NO_SESSION);
      if (visitor.subjects.some((subject) => session.owners.includes(subject))) return ok(session);
      if (visitor.unknown !== null) return err(visitor.unknown);
      if (session.owners.length === 0) return claimed(session, visitor);
      return isCall && hasEnded(session, visitor) ? ok(session) : err(NO_SESSION);
    },
    beginCall({ calls }, id) {
      if (calls.size >= LIMITS.sessionCalls.each) return null;
      const canceller = new AbortController();
      calls.set(id, canceller);
      return canceller;
    },
    endCall({ calls, stream }, id) {
      calls.delete(id);
      if (draining && calls.size === 0) stream.close();
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
