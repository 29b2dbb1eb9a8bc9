// Keeps the sessions of HTTP+SSE in memory. Each is one open event stream and ends with it. Bounded in all, for each
// address and each owner. A session belongs to the owners that its first valid credentials name.

import { type Identity, isWrong } from '../../calls/identify.ts';
import { networkOf } from '../../ground/ip.ts';
import { LIMITS } from '../../ground/limits/index.ts';
import { OVERLOADED, type Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import type { JsonObject } from '../../ground/text.ts';
import { NO_CAPABILITIES } from '../../mcp/era.ts';
import type { Id } from '../../mcp/message.ts';
import type { EventStream } from '../../web/stream.ts';

const { total: SESSIONS_MAX, each: SESSIONS_MAX_EACH } = LIMITS.streams;

export interface Session {
  readonly id: string;
  readonly stream: EventStream;
  /** The cancellers of the calls in progress, by request id. */
  readonly calls: Map<Id, AbortController>;
  /** The number of requests in progress, which a drain waits for. */
  requests: number;
  /** The client's IPv4 address or IPv6 /64. */
  readonly network: string;
  /** The declared capabilities that the server uses. */
  capabilities: JsonObject;
  client: string | undefined;
  /** Empty until the first valid credential. */
  owners: readonly string[];
}

/** The sender of a request, by its credentials. */
export interface Visitor {
  /** The owner of each valid credential. */
  readonly owners: readonly string[];
  /** The owner of each credential that is refused: a key that is on record, a user token that is good but for its `exp`. */
  readonly named: readonly string[];
  /** Why a credential can't be verified now; null: all are known. */
  readonly unknown: Problem | null;
}

export function asVisitor({ user, key }: Identity): Visitor {
  const verdicts = [user, key].filter((verdict) => verdict !== null);
  const refused = verdicts.flatMap((verdict) => (verdict.ok ? [] : verdict.error));
  return {
    owners: verdicts.flatMap((verdict) => (verdict.ok ? verdict.value.subject : [])),
    named: refused.flatMap((problem) => ('userId' in problem && problem.userId) || []),
    unknown: refused.find((problem) => !isWrong(problem)) ?? null,
  };
}

const NO_SESSION: Problem = { code: 'session_not_found' };

const sharesOwner = (session: Session, owners: readonly string[]): boolean =>
  owners.some((owner) => session.owners.includes(owner));

export type Sessions = ReturnType<typeof createSessions>;

export function createSessions() {
  const sessions = new Map<string, Session>(); // oldest first
  let draining = false;

  const having = (matches: (session: Session) => boolean) => [...sessions.values()].filter(matches);

  /** Closes the oldest of these sessions that belongs to nobody, if there are `most`. Returns whether there is room. */
  function makeRoom(among: readonly Session[], most: number): boolean {
    if (among.length < most) return true;
    const oldest = among.find(({ owners }) => owners.length === 0);
    oldest?.stream.close();
    return oldest !== undefined;
  }

  const hasRoomFor = (owners: readonly string[]): boolean =>
    owners.every((owner) => having((session) => session.owners.includes(owner)).length < SESSIONS_MAX_EACH);

  /** Makes the visitor the session's owner, if the credentials are valid. */
  function claimed(session: Session, { owners }: Visitor): Result<Session, Problem> {
    if (!hasRoomFor(owners)) return err(OVERLOADED);
    session.owners = owners;
    return ok(session);
  }

  return {
    open(openStream: (onEnd: () => void) => EventStream, { owners }: Visitor, address: string): Session | undefined {
      const network = networkOf(address);
      const isAdmitted =
        !draining &&
        hasRoomFor(owners) &&
        makeRoom(
          having((session) => session.network === network),
          SESSIONS_MAX_EACH,
        ) &&
        makeRoom(
          having(() => true),
          SESSIONS_MAX,
        );
      if (!isAdmitted) return undefined;
      const id = crypto.randomUUID();
      const session: Session = {
        id,
        stream: openStream(() => sessions.delete(id)),
        calls: new Map(),
        requests: 0,
        network,
        capabilities: NO_CAPABILITIES,
        client: undefined,
        owners,
      };
      sessions.set(id, session);
      return session;
    },
    has: (id: string): boolean => sessions.has(id),
    /**
     * Returns the session if the visitor may post to it. While it has no owner anybody may, and a valid credential makes
     * the visitor its owner. A credential that has ended still names its owner, whose calls are then refused.
     */
    find(id: string, visitor: Visitor): Result<Session, Problem> {
      const session = sessions.get(id);
      if (session === undefined) return err(NO_SESSION);
      if (sharesOwner(session, visitor.owners)) return ok(session);
      if (visitor.unknown !== null) return err(visitor.unknown);
      if (session.owners.length === 0) return claimed(session, visitor);
      return visitor.owners.length === 0 && sharesOwner(session, visitor.named) ? ok(session) : err(NO_SESSION);
    },
    /** Answers a request, for whose end a drain of its session waits. */
    async answering<T>(id: string, answer: () => Promise<T>): Promise<T> {
      const session = sessions.get(id);
      if (session === undefined) return answer();
      session.requests += 1;
      try {
        return await answer();
      } finally {
        session.requests -= 1;
        if (draining && session.requests === 0) session.stream.close();
      }
    },
    /** Ends each session as soon as it has no requests in progress, and opens no more. */
    drain(): void {
      draining = true;
      for (const session of sessions.values()) if (session.requests === 0) session.stream.close();
    },
    count: (): number => sessions.size,
  };
}
