// A person has decided on a new key for a client, on the page of keys, which sends the decision to /authorize as JSON
// with the person's user token. The key is made when the client redeems its code.

import { type Call, callOf } from '../calls/call.ts';
import type { Guard } from '../calls/guard.ts';
import { actorOf, type UserAuth } from '../calls/user-jwt.ts';
import type { Problem } from '../ground/problem.ts';
import { err, type Result } from '../ground/result.ts';
import { isObject } from '../ground/text.ts';
import type { Body } from '../web/body.ts';
import type { RequestContext } from '../web/context.ts';
import { UNCACHED_JSON_HEADERS } from '../web/headers.ts';
import { challengeFor, problemResponse } from '../web/problem-response.ts';
import type { Decide, Decision } from './authorization-request.ts';
import type { Grants, NewKey } from './grant.ts';

/** Reads what a person decides about a new key, as create_api_key does. */
export type ReadKeyRequest = (fields: unknown) => Result<NewKey, Problem>;

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

/** What a person decides; all other fields are the request's parameters. */
const DECIDED = ['name', 'scopes', 'expiresInDays', 'rateLimit', 'quota'];

/** Returns the two parts of the body. `parameters` is null if they are no parameters of a URL. */
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
