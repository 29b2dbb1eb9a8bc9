// /authorize (RFC 6749 §4.1.1): answers a client's request with the page that says who will get a key. The person's
// answer comes back as a form (authorize-paste.ts), or from the page /keys as JSON (authorize-click.ts).

import type { Problem } from '../../ground/problem.ts';
import type { Awaitable } from '../../ground/result.ts';
import { excerptOf } from '../../watch/redact.ts';
import { formIn, isUtf8 } from '../../web/body.ts';
import type { RequestContext } from '../../web/context.ts';
import { problemResponse } from '../../web/problem-response.ts';
import { queryOf, type Route } from '../../web/router.ts';
import type { AuthorizationRequest, Decide } from './authorization-request.ts';
import { locationOf } from './authorization-request.ts';
import { type ClickOptions, createClick } from './authorize-click.ts';
import { createKeyForm, type KeyFormOptions } from './authorize-paste.ts';
import { errorPage, problemPage, seeOther } from './authorize-responses.ts';

export type AuthorizeRouteOptions = ClickOptions &
  KeyFormOptions & { readonly decide: Decide; readonly grants: ClickOptions['grants'] & KeyFormOptions['grants'] };

export function authorizeRoute(options: AuthorizeRouteOptions): Pick<Route, 'get' | 'post' | 'takes' | 'refuse'> {
  const { decide, hasKeysPage: hasPage, log } = options;
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
        return errorPage(decision.why, decision.problem);
      case 'error_redirect':
        return seeOther(decision.location);
      case 'ask':
        return next(decision.request);
    }
  }

  function refuseOrigin({ requestId, origin }: RequestContext): Promise<Response> {
    log.warn('request refused', { requestId, code: 'origin_denied', origin: excerptOf(origin ?? '') });
    return problemPage({ code: 'origin_denied' });
  }

  return {
    takes: hasPage ? 'json_or_form' : 'form',
    get(context) {
      const { url } = context.request;
      // Else the client would get back another `state` than it sent.
      return isUtf8(url) ? respond(context, queryOf(url), showForm) : errorPage('The request is not UTF-8.');
    },
    post(context, body) {
      // A user token is no cookie: no other page can make the browser send it.
      if (hasPage && isJson(context)) return click(context, body);
      // Another page's form could hand over a key that the visitor didn't choose.
      if (context.origin !== new URL(context.publicUrl).origin) return refuseOrigin(context);
      if (!body.ok) return problemPage(body.error);
      const form = formIn(body.value);
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
