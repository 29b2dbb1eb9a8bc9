// The responses for services that are refused: OAuth errors (RFC 6749 §5.2).

import type { Problem } from '../../ground/problem.ts';
import { SERVER_NAME } from '../../ground/server-info.ts';
import { challengeFor, oauthErrorResponse } from '../../web/problem-response.ts';

export function refuseService(problem: Problem): Response {
  const isUnknown = problem.code === 'missing_api_key' || problem.code === 'invalid_api_key';
  return oauthErrorResponse(problem, isUnknown ? `Basic realm="${SERVER_NAME}"` : challengeFor(problem, null));
}
