// The sessions of HTTP+SSE: each is one open event stream, and ends with it. In memory, bounded; a session belongs to
// the first principal it sees.

import type { RandomBytes } from '../clock.ts';
import type { EventStream } from '../http/event-stream.ts';
import type { Id } from '../mcp/message.ts';

/** At about 10 KB a quiet stream, 10 MB in all: far below what a small machine has. */
const SESSIONS_MAX = 1000;

export interface Session {
  readonly id: string;
  readonly stream: EventStream;
  /** The calls under way, each to be cancelled by its id. */
  readonly calls: Map<Id, AbortController>;
  /** Set once the client has sent `initialize`: from then on it is not pushed out. */
  initialized: boolean;
  /** Who it belongs to; empty until somebody is known. */
  owners: readonly string[];
}

export interface Sessions {
  /** Undefined where there is no room. */
  open(openStream: (onEnd: () => void) => EventStream, owners: readonly string[]): Session | undefined;
  has(id: string): boolean;
  /** The session, if it is this caller's. Callers without a valid credential may post: tools ask for it anyway. */
  find(id: string, callers: readonly string[]): Session | undefined;
  /** A call of this session has ended. */
  callEnded(session: Session, id: Id): void;
  /** From now on sessions end as soon as no call of theirs is under way, and none opens. */
  drain(): void;
  readonly count: number;
}

export function createSessions(random: RandomBytes): Sessions {
  const sessions = new Map<string, Session>(); // in the order of opening
  let draining = false;

  function makeRoom(): void {
    if (sessions.size < SESSIONS_MAX) return;
    for (const session of sessions.values()) {
      if (session.initialized) continue;
      session.stream.close();
      return;
    }
  }

  return {
    open(openStream, owners) {
      if (draining) return undefined;
      makeRoom();
      if (sessions.size >= SESSIONS_MAX) return undefined;
      const id = uuid(random(16));
      const session: Session = {
        id,
        stream: openStream(() => sessions.delete(id)),
        calls: new Map(),
        initialized: false,
        owners,
      };
      sessions.set(id, session);
      return session;
    },
    has: (id) => sessions.has(id),
    find(id, callers) {
      const session = sessions.get(id);
      if (session === undefined || callers.length === 0) return session;
      if (session.owners.length === 0) session.owners = callers;
      return callers.some((caller) => session.owners.includes(caller)) ? session : undefined;
    },
    callEnded(session, id) {
      session.calls.delete(id);
      if (draining && session.calls.size === 0) session.stream.close();
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

/** RFC 9562 §5.4: version 4. */
function uuid(bytes: Uint8Array): string {
  const fixed = bytes.map((byte, index) =>
    index === 6 ? (byte & 0x0f) | 0x40 : index === 8 ? (byte & 0x3f) | 0x80 : byte,
  );
  return fixed.toHex().replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
