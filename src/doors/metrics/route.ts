// GET /metrics: serves the metrics to a scraper with METRICS_TOKEN, even over plain HTTP: the token protects counts,
// not keys.

import type { Problem } from '../../ground/problem.ts';
import type { Sha256 } from '../../ground/runtime.ts';
import { SECURITY_HEADERS } from '../../web/headers.ts';
import { challengeFor, problemResponse } from '../../web/problem-response.ts';
import type { Handler } from '../../web/router.ts';

export function metricsRoute(token: string, sha256: Sha256, text: () => Promise<string>): Handler {
  // Compares hashes, so that timing reveals nothing of the token.
  const tokenHash = sha256(token, 'hex');

  return async ({ credentials, requestId }) => {
    const { bearer } = credentials;
    if (bearer === null || sha256(bearer, 'hex') !== tokenHash) {
      const wanted = 'METRICS_TOKEN';
      const problem: Problem =
        bearer === null ? { code: 'missing_token', wanted } : { code: 'invalid_token', reason: 'another', wanted };
      return problemResponse(problem, requestId, challengeFor(problem, null));
    }
    const headers = {
      ...SECURITY_HEADERS,
      'Content-Type': 'text/plain; version=0.0.4; charset=utf-8',
      'Cache-Control': 'no-store',
    };
    return new Response(await text(), { headers });
  };
}
