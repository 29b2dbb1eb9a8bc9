// GET /metrics: serves the metrics to a scraper with METRICS_TOKEN, even over plain HTTP: the token protects counts,
// not keys.

import type { Sha256 } from '../../ground/runtime.ts';
import { SERVER_NAME } from '../../ground/server-info.ts';
import { SECURITY_HEADERS } from '../../web/headers.ts';
import { bearerChallenge, problemResponse } from '../../web/problem-response.ts';
import type { Handler } from '../../web/router.ts';

const WANTED = 'This path needs METRICS_TOKEN as the bearer token';

export function metricsRoute(token: string, sha256: Sha256, text: () => Promise<string>): Handler {
  // Compares hashes, so that timing reveals nothing of the token.
  const tokenHash = sha256(token, 'hex');

  return async ({ credentials, requestId }) => {
    const { bearer } = credentials;
    if (bearer === null || sha256(bearer, 'hex') !== tokenHash) {
      const ownCode = bearer === null ? 'missing_token' : 'invalid_token';
      const problem = { code: 'tool_failure', status: 401, ownCode, detail: WANTED } as const;
      const refused = { error: 'invalid_token', error_description: WANTED };
      return problemResponse(problem, requestId, bearerChallenge(bearer === null ? { realm: SERVER_NAME } : refused));
    }
    const headers = {
      ...SECURITY_HEADERS,
      'Content-Type': 'text/plain; version=0.0.4; charset=utf-8',
      'Cache-Control': 'no-store',
    };
    return new Response(await text(), { headers });
  };
}
