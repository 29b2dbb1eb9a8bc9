// /authorize (RFC 6749 §4.1.1): the page that says who will get a key. A person pastes one there, or decides on a new one
// on the page of keys, which sends the decision here.

import { apiKeyGuard, type VerifyKey } from '../../calls/api-key.ts';
import { Call, callOf } from '../../calls/call.ts';
import type { Guard } from '../../calls/guard.ts';
import { actorOf, type UserAuth } from '../../calls/user-jwt.ts';
import { type Problem, publicPart } from '../../ground/problem.ts';
import { type Awaitable, err, outageIn, type Result } from '../../ground/result.ts';
import { isObject } from '../../ground/text.ts';
import { keysPageUrl } from '../../ground/urls.ts';
import type { Log } from '../../watch/log.ts';
import { outageProblem } from '../../watch/outage.ts';
import { excerptOf } from '../../watch/redact.ts';
import { type Body, formIn } from '../../web/body.ts';
import type { RequestContext } from '../../web/context.ts';
import { UNCACHED_HEADERS, UNCACHED_JSON_HEADERS } from '../../web/headers.ts';
import { challengeFor, problemHeaders, problemResponse } from '../../web/problem-response.ts';
import { queryOf, type Route } from '../../web/router.ts';
import type { Connect } from '../index.ts';
import { type AuthorizationRequest, type Decision, locationOf, type NewKey, queryFor, serverOf } from '../requests.ts';

export type ReadKeyRequest = (fields: unknown) => Result<NewKey, Problem>;

export interface AuthorizeRouteOptions {
  readonly connect: Connect;
  readonly config: { readonly keysPage: object | null };
  /** Reads what a person decides about a new key, as create_api_key does. */
  readonly readKeyRequest: ReadKeyRequest;
  readonly publicUrl: string;
  readonly pasteKey: VerifyKey;
  readonly guards: { readonly userJwt: Guard<Call, UserAuth> };
  readonly log: Log;
}

export function authorizeRoute(options: AuthorizeRouteOptions): Pick<Route, 'get' | 'post' | 'takes' | 'refuse'> {
  const { connect, config, publicUrl, pasteKey, guards, readKeyRequest, log } = options;
  const { audience } = connect;
  const guard = apiKeyGuard(pasteKey, log);
  const pages = () => import('../page.ts'); // at first use: start-up doesn't wait for it

  async function html(status: number, make: (page: Awaited<ReturnType<typeof pages>>) => string, problem?: Problem) {
    const page = await pages();
    const common = {
      ...UNCACHED_HEADERS,
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': page.POLICY,
      'Referrer-Policy': 'same-origin', // with `no-referrer` the form's Origin would be `null`
      'X-Frame-Options': 'DENY',
    };
    const headers = problem === undefined ? common : problemHeaders(common, problem, challengeFor(problem, null));
    return new Response(make(page), { status, headers });
  }

  function stopFor(problem: Problem): Promise<Response> {
    const { status, detail } = publicPart(problem);
    return html(status, (page) => page.stopPage(detail), problem);
  }

  /** `refused`: what was wrong with a key; the page is shown again. */
  function ask(request: AuthorizationRequest, refused?: Refused): Promise<Response> {
    const connectUrl = config.keysPage === null ? null : connectUrlOf(publicUrl, queryFor(request));
    const { status = 200, detail = null, problem } = refused ?? {};
    return html(status, (page) => page.askPage({ request, audience, connectUrl, problem: detail }), problem);
  }

  const askAgain = (request: AuthorizationRequest, problem: Problem) =>
    ask(request, { ...publicPart(problem), problem });

  async function answer(
    parameters: URLSearchParams,
    next: (request: AuthorizationRequest) => Awaitable<Response>,
  ): Promise<Response> {
    const decision = await connect.decide(parameters);
    switch (decision.kind) {
      case 'stop':
        return html(400, (page) => page.stopPage(decision.why));
      case 'send_back':
        return seeOther(decision.location);
      case 'ask':
        return next(decision.request);
    }
  }

  async function hand(context: RequestContext, request: AuthorizationRequest, pasted: string): Promise<Response> {
    const credentials = { xApiKey: pasted || null, bearer: null, metaApiKey: null };
    const resource = serverOf(request, audience);
    const call = new Call(context.requestId, credentials, () => context.clientAddress(), { resources: [resource] });
    const verified = await guard(call);
    // Another server would be sent a key that is good here too.
    const isForeign = resource !== audience.own;
    if (isForeign && (verified.ok ? verified.value.auth.resource !== resource : isBoundElsewhere(verified.error))) {
      return ask(request, WORKS_ELSEWHERE);
    }
    if (!verified.ok) return askAgain(request, verified.error);
    const granted = await connect.grant(request, pasted, verified.value.auth, call);
    return granted.ok ? seeOther(granted.value) : askAgain(request, granted.error);
  }

  /** A person has decided on the page of keys. */
  async function make(context: RequestContext, body: Body): Promise<Result<string, Problem>> {
    if (!body.ok) return body;
    const call = callOf(context, null);
    const user = await guards.userJwt(call);
    if (!user.ok) return user;
    const { parameters, decided } = partsOf(body.value);
    if (parameters === null) return unfit('Expected parameters that are text');
    const decision = await connect.decide(parameters);
    if (decision.kind !== 'ask') return unfit(whyNot(decision));
    const input = readKeyRequest(decided);
    if (!input.ok) return input;
    return connect.order(decision.request, actorOf(Object.assign(call, user.value)), input.value);
  }

  async function postJson(context: RequestContext, body: Body): Promise<Response> {
    const made = await make(context, body);
    if (!made.ok) return problemResponse(made.error, context.requestId, challengeFor(made.error, null));
    return new Response(JSON.stringify({ location: made.value }), { headers: UNCACHED_JSON_HEADERS });
  }

  return {
    takes: config.keysPage === null ? 'form' : 'json_or_form',
    get: ({ request }) => answer(queryOf(request.url), (asked) => ask(asked)),
    post(context, body) {
      const { requestId, origin, headers } = context;
      // A user token is no cookie: only who has it can send it.
      if (config.keysPage !== null && JSON_TYPE.test(headers.get('content-type') ?? '')) return postJson(context, body);
      // A form of another page could hand over a key that the visitor did not choose.
      if (origin !== new URL(publicUrl).origin) {
        log.warn('request refused', { requestId, code: 'origin_denied', origin: excerptOf(origin ?? '') });
        return stopFor({ code: 'origin_denied' });
      }
      if (!body.ok) return stopFor(body.error);
      const form = formIn(body.value);
      return answer(form, (asked) =>
        form.has('cancel')
          ? seeOther(locationOf(asked, { error: 'access_denied' }, publicUrl))
          : hand(context, asked, form.get('key')?.trim() ?? '').catch((error) =>
              askAgain(asked, outageProblem(outageIn(error), log, context)),
            ),
      );
    },
    refuse: ({ headers, requestId }, problem) => {
      const isJson = JSON_TYPE.test(headers.get('content-type') ?? '');
      return isJson ? problemResponse(problem, requestId, null) : stopFor(problem);
    },
  };
}

const JSON_TYPE = /^application\/json\s*(?:;|$)/i;

/** What a person decides; all other members are the request's parameters. */
const DECIDED = ['name', 'scopes', 'expiresInDays', 'rateLimit', 'quota'];

/** `parameters`: null if they are no parameters of a URL. */
function partsOf(body: unknown): { parameters: URLSearchParams | null; decided: object } {
  const members = Object.entries(isObject(body) ? body : {});
  const isDecided = ([name]: [string, unknown]) => DECIDED.includes(name);
  const parameters = members.filter((member) => !isDecided(member));
  const areTexts = parameters.every((parameter): parameter is [string, string] => typeof parameter[1] === 'string');
  return {
    parameters: areTexts ? new URLSearchParams(parameters) : null,
    decided: Object.fromEntries(members.filter(isDecided)),
  };
}

const unfit = (detail: string): Result<never, Problem> =>
  err({ code: 'invalid_input', detail, issues: [{ path: '', message: detail }] });

const whyNot = (decision: Exclude<Decision, { kind: 'ask' }>): string =>
  decision.kind === 'stop'
    ? decision.why
    : `The request is refused: ${new URL(decision.location).searchParams.get('error')}`;

/** A longer request doesn't get one: the page, which clients may leave unread, stays small. */
const QUERY_CHARS_MAX = 16 * 1024;

/** The page of keys, with the request; null: it is too long. */
const connectUrlOf = (publicUrl: string, query: string): string | null =>
  query.length > QUERY_CHARS_MAX ? null : `${keysPageUrl(publicUrl)}#connect=${encodeURIComponent(query)}`;

interface Refused {
  readonly status: number;
  readonly detail: string;
  readonly problem?: Problem;
}

const WORKS_ELSEWHERE: Refused = {
  status: 403,
  detail: 'This key works at other servers too. Make one for this connection.',
};

const isBoundElsewhere = (problem: Problem) =>
  problem.code === 'invalid_api_key' && problem.reason === 'other resource';

const seeOther = (location: string) =>
  new Response(null, { status: 303, headers: { ...UNCACHED_HEADERS, Location: location } });
