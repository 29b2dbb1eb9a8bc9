// Routes for programs without a browser (RFC 8628): one for the program that asks, and two for the page of keys, on which
// a person decides. No tool does that: a model with a user token must not approve its own request.
//
// POST /device/request   { userCode } → 200 { clientName, address, askedAt, expiresAt, resource, scopes }
// POST /device/decision  { userCode, approve: true, name, scopes, expiresInDays, rateLimit, quota } → 200 { approved }
//                        { userCode, approve: false } → 200 { approved }

import * as v from 'valibot';
import { type Call, callerOf, callOf } from '../../calls/call.ts';
import type { Guard } from '../../calls/guard.ts';
import { parserOf } from '../../calls/schema.ts';
import { actorOf, type UserAuth } from '../../calls/user-jwt.ts';
import type { Problem } from '../../ground/problem.ts';
import { ok, type Result } from '../../ground/result.ts';
import type { Actor } from '../../keys/actor.ts';
import { type Body, formIn } from '../../web/body.ts';
import type { RequestContext } from '../../web/context.ts';
import { UNCACHED_JSON_HEADERS } from '../../web/headers.ts';
import { challengeFor, problemResponse } from '../../web/problem-response.ts';
import type { Device } from '../device.ts';
import type { NewKey } from '../requests.ts';
import type { ReadKeyRequest } from './authorize.ts';
import { failed, json, refuse } from './oauth-responses.ts';

export interface DeviceRoutesOptions {
  readonly device: Device;
  readonly guards: { readonly userJwt: Guard<Call, UserAuth> };
  readonly readKeyRequest: ReadKeyRequest;
}

const readLook = parserOf(v.strictObject({ userCode: v.string() }));
const readDecision = parserOf(v.looseObject({ userCode: v.string(), approve: v.boolean() }));

export function deviceRoutes({ device, guards, readKeyRequest }: DeviceRoutesOptions) {
  async function ask(context: RequestContext, body: Body): Promise<Response> {
    if (!body.ok) return refuse(context, body.error);
    const asked = await device.ask(formIn(body.value), callerOf(context));
    return asked.ok ? json(200, asked.value) : failed(context, asked.error);
  }

  /** What a person asks for, on the page. */
  const ofPerson = (handle: (actor: Actor, body: unknown) => Promise<Result<object, Problem>>) => {
    async function handled(context: RequestContext, body: Body): Promise<Result<object, Problem>> {
      if (!body.ok) return body;
      const call = callOf(context, null);
      const user = await guards.userJwt(call);
      return user.ok ? handle(actorOf(Object.assign(call, user.value)), body.value ?? {}) : user;
    }
    return async (context: RequestContext, body: Body): Promise<Response> => {
      const result = await handled(context, body);
      return result.ok
        ? new Response(JSON.stringify(result.value), { headers: UNCACHED_JSON_HEADERS })
        : problemResponse(result.error, context.requestId, challengeFor(result.error, null));
    };
  };

  async function look(actor: Actor, body: unknown): Promise<Result<object, Problem>> {
    const asked = readLook(body);
    return asked.ok ? device.look(actor, asked.value.userCode) : asked;
  }

  async function decide(actor: Actor, body: unknown): Promise<Result<object, Problem>> {
    const decision = readDecision(body);
    if (!decision.ok) return decision;
    const { userCode, approve, ...fields } = decision.value;
    const newKey: Result<NewKey | null, Problem> = approve ? readKeyRequest(fields) : ok(null);
    if (!newKey.ok) return newKey;
    const decided = await device.decide(actor, userCode, newKey.value);
    return decided.ok ? ok({ approved: approve }) : decided;
  }

  return {
    ask: { post: ask, refuse },
    request: { post: ofPerson(look) },
    decision: { post: ofPerson(decide) },
  };
}
