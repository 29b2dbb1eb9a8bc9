// Creates responses to OAuth clients: uncached JSON, and errors by name (RFC 6749 §5.2).

import type { Problem } from '../ground/problem.ts';
import type { RequestContext } from '../web/context.ts';
import { UNCACHED_JSON_HEADERS } from '../web/headers.ts';
import { oauthErrorResponse, withCode } from '../web/problem-response.ts';

export const json = (status: number, body: object): Response =>
  new Response(JSON.stringify(body), { status, headers: UNCACHED_JSON_HEADERS });

export const oauthError = (error: string): Response =>
  withCode(json(error === 'invalid_client' ? 401 : 400, { error }), error);

/** Creates the response to a failure. `error` is the name of an OAuth error, or a problem. */
export const failed = (context: RequestContext, error: string | Problem): Response =>
  typeof error === 'string' ? oauthError(error) : refuse(context, error);

export const refuse = (_context: RequestContext, problem: Problem): Response => oauthErrorResponse(problem, null);
