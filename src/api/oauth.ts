// What routes for OAuth clients share: parameters, and errors by name (RFC 6749 §5.2). A client reads one sentence for each
// error, whatever the reason; the log has the reason.

import type { Problem } from '../ground/problem.ts';
import { err, type Result } from '../ground/result.ts';
import { SERVER_NAME } from '../ground/server-info.ts';
import type { Log, LogFields } from '../watch/log.ts';
import type { RequestContext } from '../web/context.ts';
import { json } from '../web/headers.ts';
import { bearerChallenge, oauthErrorResponse, withCode } from '../web/problem-response.ts';

/** The errors of /token, /register and /device_authorization. None of the sentences repeats what was sent. */
const SENTENCES = {
  // RFC 6749 §5.2, RFC 8707 §2, RFC 8693 §2.2.2
  invalid_request: 'A field is missing, is there twice, or is not as it must be',
  invalid_client: 'This server does not know the client; have it register, or connect, again',
  invalid_grant: 'What was presented is unknown, has ended, was used before, or may not be used for this',
  unsupported_grant_type: 'This server does not have this grant type',
  invalid_scope: 'Ask for at least one scope, and only for scopes that the presented key may hand on',
  invalid_target: 'This server gives no key for this resource',
  // RFC 8628 §3.5
  authorization_pending: 'Nobody has decided yet; ask again after the interval',
  slow_down: 'Asked too soon; the interval is 5 seconds longer now',
  access_denied: 'The person has refused',
  expired_token: 'Nobody has decided in time; ask for a new code',
  // RFC 7591 §3.2.2
  invalid_redirect_uri: 'This server hands keys to none of the redirect URIs; whoever runs it can admit one',
  invalid_client_metadata: 'A registration is a JSON object',
} as const satisfies Readonly<Record<string, string>>;

type OAuthError = keyof typeof SENTENCES;

export interface RefusalReason {
  /** What an operator reads in the log; null: nothing is wrong, as while a person decides. */
  readonly reason: string | null;
  /** The fields of the log that say whom and what it concerns. */
  readonly about?: LogFields | undefined;
}

export interface Refusal extends RefusalReason {
  readonly error: OAuthError;
  /** What the client reads in place of the error's sentence. */
  readonly description?: string | undefined;
}

export const refused = (error: OAuthError, reason: string | null, about?: LogFields): Result<never, Refusal> =>
  err({ error, reason, about });

type Refuse = (context: RequestContext, refusal: Refusal | Problem) => Response;

/** Creates the function that responds to what a route refuses, and logs why. */
export const createRefuse =
  (route: string, log: Log): Refuse =>
  (context, refusal) => {
    if ('code' in refusal) return oauthErrorResponse(refusal, null, { describesAll: true });
    const { error, description = SENTENCES[error] } = refusal;
    logRefusal(log, route, context.requestId, refusal);
    const isUnknown = error === 'invalid_client';
    const response = json(isUnknown ? 401 : 400, { error, error_description: description });
    // Each 401 has a challenge (RFC 9110 §15.5.2): not Basic, for which browsers would ask who uses a page of this origin for
    // a password. Some clients then read no body, so it names the error, too.
    if (isUnknown) response.headers.set('WWW-Authenticate', bearerChallenge({ realm: SERVER_NAME, error }));
    return withCode(response, error);
  };

/** Logs why a client is refused, if that is known. Callers can cause it at will, so the lines are throttled. */
export function logRefusal(
  log: Log,
  route: string,
  requestId: string,
  { error, reason, about = {} }: RefusalReason & { readonly error?: string },
): void {
  if (reason === null) return;
  const fields = { requestId, route, ...(error !== undefined && { error }), reason, ...about };
  log.warnThrottled('OAuth request refused', `${route} ${reason} ${about.keyId}`, fields);
}

// Parameters of a query or form (RFC 6749 §3.1, §3.2)

/** Returns a parameter; null if it is missing or empty, which is the same. */
export const parameter = (parameters: URLSearchParams, name: string): string | null => parameters.get(name) || null;

export function hasRepeatedField(parameters: URLSearchParams): boolean {
  const names = [...parameters.keys()];
  return new Set(names).size < names.length;
}
