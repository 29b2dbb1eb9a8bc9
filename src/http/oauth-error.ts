// A problem as OAuth clients read it: {"error": …} (RFC 6749 §5.2), with the status and headers that it has elsewhere.

import { type Problem, type ProblemCode, publicPart } from '../problem.ts';
import { UNCACHED_JSON_HEADERS } from './headers.ts';
import { problemHeaders } from './problem-response.ts';

/** Those that OAuth has a name for (also RFC 6749 §4.1.2.1, RFC 6750 §3.1). The others keep ours. */
const ERRORS: Partial<Record<ProblemCode, string>> = {
  invalid_json: 'invalid_request',
  invalid_input: 'invalid_request',
  method_not_allowed: 'invalid_request',
  payload_too_large: 'invalid_request',
  unsupported_media_type: 'invalid_request',
  missing_api_key: 'invalid_client',
  invalid_api_key: 'invalid_client',
  internal: 'server_error',
  store_unavailable: 'temporarily_unavailable',
  overloaded: 'temporarily_unavailable',
};

export function oauthErrorResponse(problem: Problem, challenge: string | null): Response {
  const { status, code } = publicPart(problem);
  return new Response(JSON.stringify({ error: ERRORS[problem.code] ?? code }), {
    status,
    headers: problemHeaders(UNCACHED_JSON_HEADERS, problem, challenge),
  });
}
