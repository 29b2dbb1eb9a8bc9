// Creates handlers for the page /keys: JSON requests of a person that are no tools, because a model with a user token
// must not make them.

import type { Problem } from '../ground/problem.ts';
import { err, type Result } from '../ground/result.ts';
import type { Actor } from '../keys/actor.ts';
import type { Body } from '../web/body.ts';
import type { RequestContext } from '../web/context.ts';
import { json } from '../web/headers.ts';
import { challengeFor, problemResponse } from '../web/problem-response.ts';
import { type Call, callOf } from './call.ts';
import { addTo, type Guard } from './guard.ts';
import type { Recheck } from './proof.ts';
import { inOwnWords } from './run.ts';
import { actorOf, type UserAuth, type UserIdentity } from './user-jwt.ts';

/** Returns the object to send with 200, or a problem. `body` is an empty object if nothing was sent. */
type PersonRequest = (actor: Actor, body: unknown, user: UserIdentity) => Promise<Result<object, Problem>>;

export interface PersonOptions {
  readonly guards: { readonly userJwt: Guard<Call, UserAuth> };
  readonly recheck: Recheck;
}

/** Creates handlers that demand a user token in `Authorization`, which no page of another origin can send. */
export const personHandler =
  (options: PersonOptions) =>
  (handle: PersonRequest) =>
  async (context: RequestContext, body: Body): Promise<Response> => {
    const result = await respondTo(options, handle, context, body);
    return result.ok
      ? json(200, result.value)
      : problemResponse(inOwnWords(result.error), context.requestId, challengeFor(result.error, null));
  };

async function respondTo(
  { guards, recheck }: PersonOptions,
  handle: PersonRequest,
  context: RequestContext,
  body: Body,
): Promise<Result<object, Problem>> {
  if (!body.ok) return body;
  const call = callOf(context, null);
  const user = await guards.userJwt(call);
  if (!user.ok) return user;
  const result = await handle(actorOf(addTo(call, user.value)), body.value ?? {}, user.value.auth);
  const ended = await recheck.one(call); // whose owner may be blocked by now
  return ended === undefined ? result : err(ended);
}
