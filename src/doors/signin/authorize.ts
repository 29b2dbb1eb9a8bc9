// /authorize (RFC 6749 §4.1.1): answers a client's request with the page that says who will get a key. The person's answer
// is the page's form, with a pasted key, or JSON of the page /keys, with the user token and a decision on a new key.

import { apiKeyGuard } from '../../calls/api-key.ts';
import { Call } from '../../calls/call.ts';
import { personHandler } from '../../calls/person-requests.ts';
import { invalidInput, type Problem, publicPart } from '../../ground/problem.ts';
import { type Awaitable, err, ok, outageIn } from '../../ground/result.ts';
import { isObject } from '../../ground/text.ts';
import { keysPageUrl } from '../../ground/urls.ts';
import { THIS_SERVER } from '../../keys/audience.ts';
import { outageProblem } from '../../watch/outage.ts';
import { excerptOf } from '../../watch/redact.ts';
import { formIn, isUtf8 } from '../../web/body.ts';
import type { RequestContext } from '../../web/context.ts';
import { UNCACHED_HEADERS } from '../../web/headers.ts';
import { challengeFor, problemHeaders, problemResponse, withCode } from '../../web/problem-response.ts';
import { type Handlers, queryOf } from '../../web/router.ts';
import {
  type AuthorizationRequest,
  type Decide,
  type Decision,
  locationOf,
  queryFor,
} from './authorization-request.ts';
import { askPage, errorPage, POLICY, sentForm } from './authorize-page.ts';
import type { Codes } from './codes.ts';
import type { SignInParts } from './options.ts';

interface AuthorizeOptions extends SignInParts {
  readonly decide: Decide;
  readonly codes: Codes;
}

export function authorizeRoute(options: AuthorizeOptions): Handlers {
  const { decide, config, log } = options;
  const hasPage = config.keysPage !== null;
  const { showForm, submitKey } = createKeyForm(options);
  const click = createClick(options);

  async function respond(
    context: RequestContext,
    parameters: URLSearchParams,
    next: (request: AuthorizationRequest) => Awaitable<Response>,
  ): Promise<Response> {
    const decision = await decide(parameters, context);
    switch (decision.kind) {
      case 'error_page':
        return errorResponse(decision.why, decision.problem);
      case 'error_redirect':
        return seeOther(decision.location);
      case 'ask':
        return next(decision.request);
    }
  }

  function refuseOrigin({ requestId, origin }: RequestContext): Response {
    log.warn('request refused', { requestId, code: 'origin_denied', origin: excerptOf(origin ?? '') });
    return problemPage({ code: 'origin_denied' });
  }

  return {
    takes: hasPage ? 'json_or_form' : 'form',
    get(context) {
      const { url } = context.request;
      // Else the client would get back another `state` than it sent.
      return isUtf8(url) ? respond(context, queryOf(url), showForm) : errorResponse('The request is not UTF-8.');
    },
    post(context, body) {
      // A user token is no cookie: no other page can make the browser send it.
      if (hasPage && isJson(context)) return click(context, body);
      // Another page's form could hand over a key that the visitor didn't choose.
      if (context.origin !== new URL(context.publicUrl).origin) return refuseOrigin(context);
      if (!body.ok) return problemPage(body.error);
      const form = sentForm(formIn(body.value));
      return respond(context, form, (asked) =>
        form.has('cancel') ? seeOther(locationOf(asked, { error: 'access_denied' })) : submitKey(context, asked, form),
      );
    },
    refuse: (context, problem: Problem) =>
      isJson(context) ? problemResponse(problem, context.requestId, null) : problemPage(problem),
  };
}

const JSON_TYPE = /^application\/json\s*(?:;|$)/i;

const isJson = ({ headers }: RequestContext): boolean => JSON_TYPE.test(headers.get('content-type') ?? '');

/** Creates what shows the page, and what takes the key that a person has pasted there. */
function createKeyForm({ codes, config, verifier, log }: AuthorizeOptions) {
  const guard = apiKeyGuard(verifier.verifyPasted, log);

  /** Responds with the page. If it is shown again, `why` says what was wrong with the key. */
  function showForm(
    request: AuthorizationRequest,
    status = 200,
    why: string | null = null,
    problem?: Problem,
  ): Response {
    const connectUrl = config.keysPage === null ? null : connectUrlOf(request.issuer, queryFor(request));
    return html(status, askPage(request, connectUrl, why), problem);
  }

  function askAgain(request: AuthorizationRequest, problem: Problem): Response {
    const { status, detail } = publicPart(problem);
    return showForm(request, status, isToken(problem) ? TOKEN_PASTED : detail, problem);
  }

  async function handOver(context: RequestContext, request: AuthorizationRequest, key: string): Promise<Response> {
    const credentials = { xApiKey: key || null, bearer: null, metaApiKey: null };
    const { server } = request;
    const isForeign = server !== THIS_SERVER;
    const call = new Call(context, credentials, { resources: isForeign ? [server] : undefined });
    const verified = await guard(call);
    // Else another server would get a key that is good here, too.
    if (isForeign && (verified.ok ? verified.value.auth.resource !== server : isBoundElsewhere(verified.error))) {
      return showForm(request, 403, WORKS_ELSEWHERE);
    }
    if (!verified.ok) return askAgain(request, verified.error);
    if (verified.value.auth.parentId !== null) return showForm(request, 403, ENDS_WITH_ANOTHER);
    const granted = await codes.pasted(request, key, verified.value.auth, call.caller);
    return granted.ok ? seeOther(granted.value) : askAgain(request, granted.error);
  }

  return {
    showForm,
    async submitKey(context: RequestContext, request: AuthorizationRequest, form: URLSearchParams): Promise<Response> {
      try {
        return await handOver(context, request, form.get('key')?.trim() ?? '');
      } catch (error) {
        return askAgain(request, outageProblem(outageIn(error), log, context));
      }
    },
  };
}

/** The longest request that fits into a link. The page must stay small, because clients may leave it unread. */
const QUERY_CHARS_MAX = 16 * 1024;

/** Returns the URL of the page /keys with the request; null if that is too long. */
const connectUrlOf = (publicUrl: string, query: string): string | null =>
  query.length > QUERY_CHARS_MAX ? null : `${keysPageUrl(publicUrl)}#connect=${encodeURIComponent(query)}`;

const WORKS_ELSEWHERE = 'This key works at other servers too. Make one for this connection.';
const ENDS_WITH_ANOTHER = 'This key ends with another. Make one for this connection.';
/** Said of each JWT: a person's, or one that acts as a key elsewhere, by a rule. */
const TOKEN_PASTED = 'Invalid or expired API key: this is a token, not a key.';

const isToken = (problem: Problem) => problem.code === 'invalid_api_key' && problem.sent === 'user_token';

const isBoundElsewhere = (problem: Problem) =>
  problem.code === 'invalid_api_key' && problem.reason === 'other resource';

/** Creates what takes a person's decision on a new key from the page /keys. Redeeming the code makes the key. */
const createClick = ({ decide, codes, guards, recheck, readKeyRequest }: AuthorizeOptions) =>
  personHandler({ guards, recheck })(async (actor, body) => {
    const { parameters, decided } = partsOf(body);
    if (parameters === null) return invalid('Expected parameters that are text');
    const decision = await decide(parameters, actor);
    if (decision.kind === 'error_page' && decision.problem !== undefined) return err(decision.problem);
    if (decision.kind !== 'ask') return invalid(whyNot(decision));
    const input = readKeyRequest(decided);
    if (!input.ok) return input;
    const ordered = await codes.ordered(decision.request, actor, input.value);
    return ordered.ok ? ok({ location: ordered.value }) : ordered;
  });

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

const invalid = (detail: string) => err(invalidInput('', detail, detail));

const whyNot = (decision: Exclude<Decision, { kind: 'ask' }>): string =>
  decision.kind === 'error_page' ? decision.why : `The request is refused: ${decision.refusal.error}`;

function html(status: number, page: string, problem?: Problem): Response {
  const common = {
    ...UNCACHED_HEADERS,
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': POLICY,
    'Referrer-Policy': 'same-origin', // with `no-referrer` the form's Origin would be `null`
    'X-Frame-Options': 'DENY',
  };
  if (problem === undefined) return new Response(page, { status, headers: common });
  const headers = problemHeaders(common, problem, challengeFor(problem, null));
  return withCode(new Response(page, { status, headers }), publicPart(problem).code);
}

/** Creates the response with an error page. `problem` determines the status, by default 400. */
const errorResponse = (why: string, problem?: Problem): Response =>
  html(problem === undefined ? 400 : publicPart(problem).status, errorPage(why), problem);

const problemPage = (problem: Problem): Response => errorResponse(publicPart(problem).detail, problem);

const seeOther = (location: string): Response =>
  new Response(null, { status: 303, headers: { ...UNCACHED_HEADERS, Location: location } });
