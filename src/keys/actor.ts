// Who asks for something to be done with keys: the owner that the keys belong to, and the person.

import type { Caller, Origin } from './origin.ts';

export interface Actor extends Caller {
  /** The owner. A team's members share one. */
  readonly userId: string;
  /** The person: the token's `sub`. */
  readonly actor: string;
  /** The scopes that the person may give to a key; null: any. */
  readonly grantable: readonly string[] | null;
  /** What events say of a change; unless given, that a tool made it for the person. */
  readonly origin?: Origin;
}

/** What the log says of an actor. */
export const actorFields = ({ userId, actor, requestId, traceId }: Actor) => ({
  requestId,
  traceId,
  userId,
  ...(actor !== userId && { actor }),
});

/**
 * What limits on conduct go by: the person for this owner. By the owner alone, a member of a team could use up its
 * turns and lock the others out; by the person alone, owners whose tokens share one `sub` could. No id has controls.
 */
export const personOf = ({ userId, actor }: Actor): string => (actor === userId ? userId : `${userId}\0${actor}`);
