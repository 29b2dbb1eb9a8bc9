// Responds with the page of /authorize, which says who will get a key, and handles the form into which a person pastes
// one.

import { apiKeyGuard, type VerifyKey } from '../../calls/api-key.ts';
import { Call } from '../../calls/call.ts';
import { type Problem, publicPart } from '../../ground/problem.ts';
import { outageIn } from '../../ground/result.ts';
import { keysPageUrl } from '../../ground/urls.ts';
import { THIS_SERVER } from '../../keys/audience.ts';
import type { Log } from '../../watch/log.ts';
import { outageProblem } from '../../watch/outage.ts';
import type { RequestContext } from '../../web/context.ts';
import { type AuthorizationRequest, queryFor } from './authorization-request.ts';
import { html, seeOther } from './authorize-responses.ts';
import type { Grants } from './grant.ts';

export interface KeyFormOptions {
  readonly grants: Pick<Grants, 'pasted'>;
  readonly hasKeysPage: boolean;
  readonly verifyPastedKey: VerifyKey;
  readonly log: Log;
}

export function createKeyForm({ grants, hasKeysPage, verifyPastedKey, log }: KeyFormOptions) {
  const guard = apiKeyGuard(verifyPastedKey, log);

  /** Responds with the page. If it is shown again, `refused` says what was wrong with the key. */
  function showForm(request: AuthorizationRequest, refused?: Refused): Promise<Response> {
    const connectUrl = hasKeysPage ? connectUrlOf(request.issuer, queryFor(request)) : null;
    const { status = 200, detail = null, problem } = refused ?? {};
    return html(status, (page) => page.askPage({ request, connectUrl, problem: detail }), problem);
  }

  const askAgain = (request: AuthorizationRequest, problem: Problem) =>
    showForm(request, { ...publicPart(problem), problem });

  async function handOver(context: RequestContext, request: AuthorizationRequest, key: string): Promise<Response> {
    const credentials = { xApiKey: key || null, bearer: null, metaApiKey: null };
    const { server } = request;
    const isForeign = server !== THIS_SERVER;
    const extras = { resources: isForeign ? [server] : undefined };
    const call = new Call(context.requestId, credentials, () => context.clientAddress(), extras, context);
    const verified = await guard(call);
    // Else another server would get a key that is good here, too.
    if (isForeign && (verified.ok ? verified.value.auth.resource !== server : isBoundElsewhere(verified.error))) {
      return showForm(request, WORKS_ELSEWHERE);
    }
    if (!verified.ok) return askAgain(request, verified.error);
    if (verified.value.auth.parentId !== null) return showForm(request, ENDS_WITH_ANOTHER);
    const granted = await grants.pasted(request, key, verified.value.auth, call);
    return granted.ok ? seeOther(granted.value) : askAgain(request, granted.error);
  }

  return {
    showForm: (request: AuthorizationRequest): Promise<Response> => showForm(request),
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

interface Refused {
  readonly status: number;
  readonly detail: string;
  readonly problem?: Problem;
}

const WORKS_ELSEWHERE: Refused = {
  status: 403,
  detail: 'This key works at other servers too. Make one for this connection.',
};

const ENDS_WITH_ANOTHER: Refused = {
  status: 403,
  detail: 'This key ends with another. Make one for this connection.',
};

const isBoundElsewhere = (problem: Problem) =>
  problem.code === 'invalid_api_key' && problem.reason === 'other resource';
