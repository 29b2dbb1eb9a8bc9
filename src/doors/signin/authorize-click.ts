// Handles a person's decision on a new key for a client. The page /keys sends it to /authorize as JSON, with the user
// token. The key is created when the client redeems the code.

import { type Call, callOf } from '../../calls/call.ts';
import type { Guard } from '../../calls/guard.ts';
import { actorOf, type UserAuth } from '../../calls/user-jwt.ts';
import type { Problem } from '../../ground/problem.ts';
import { err, type Result } from '../../ground/result.ts';
import { isObject } from '../../ground/text.ts';
import type { ReadKeyRequest } from '../../keys/minting.ts';
import type { Body } from '../../web/body.ts';
import type { RequestContext } from '../../web/context.ts';
import { UNCACHED_JSON_HEADERS } from '../../web/headers.ts';
import { challengeFor, problemResponse } from '../../web/problem-response.ts';
import type { Decide, Decision } from './authorization-request.ts';
import type { Grants } from './grant.ts';

export interface ClickOptions {
  readonly decide: Decide;
  readonly grants: Pick<Grants, 'ordered'>;
  readonly guards: { readonly userJwt: Guard<Call, UserAuth> };
  readonly readKeyRequest: ReadKeyRequest;
}

export function createClick({ decide, grants, guards, readKeyRequest }: ClickOptions) {
  async function order(context: RequestContext, body: Body): Promise<Result<string, Problem>> {
    if (!body.ok) return body;
    const call = callOf(context, null);
    const user = await guards.userJwt(call);
    if (!user.ok) return user;
    const { parameters, decided } = partsOf(body.value);
    if (parameters === null) return invalid('Expected parameters that are text');
    const decision = await decide(parameters, context);
    if (decision.kind === 'error_page' && decision.problem !== undefined) return err(decision.problem);
    if (decision.kind !== 'ask') return invalid(whyNot(decision));
    const input = readKeyRequest(decided);
    if (!input.ok) return input;
    return grants.ordered(decision.request, actorOf(Object.assign(call, user.value)), input.value);
  }

  return async (context: RequestContext, body: Body): Promise<Response> => {
    const ordered = await order(context, body);
    if (!ordered.ok) return problemResponse(ordered.error, context.requestId, challengeFor(ordered.error, null));
    return new Response(JSON.stringify({ location: ordered.value }), { headers: UNCACHED_JSON_HEADERS });
  };
}

/** The fields that a person decides. All others are the request's parameters. */
const DECIDED = ['name', 'scopes', 'expiresInDays', 'rateLimit', 'quota'];

/** Splits the body. `parameters` is null if they can't be a URL's parameters. */
function partsOf(body: unknown): { parameters: URLSearchParams | null; decided: object } {
  const fields = Object.entries(isObject(body) ? body : {});
  const isDecided = ([name]: [string, unknown]) => DECIDED.includes(name);
  const parameters = fields.filter((field) => !isDecided(field));
  const areTexts = parameters.every((parameter): parameter is [string, string] => typeof parameter[1] === 'string');
  return {
    parameters: areTexts ? new URLSearchParams(parameters) : null,
    decided: Object.fromEntries(fields.filter(isDecided)),
  };
}

const invalid = (detail: string): Result<never, Problem> =>
  err({ code: 'invalid_input', detail, issues: [{ path: '', message: detail }] });

const whyNot = (decision: Exclude<Decision, { kind: 'ask' }>): string =>
  decision.kind === 'error_page'
    ? decision.why
    : `The request is refused: ${new URL(decision.location).searchParams.get('error')}`;
