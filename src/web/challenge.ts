// WWW-Authenticate (RFC 6750 §3, RFC 9728 §5.1). Clients read it with simple patterns: `Bearer ` comes first, and no
// description holds a word that looks like a parameter.

import { type Problem, problemText, publicPart } from '../ground/problem.ts';
import { SERVER_NAME } from '../ground/server-info.ts';
import { joinScopes } from '../ground/text.ts';

export interface SignIn {
  /** The protected resource metadata (RFC 9728). */
  readonly metadataUrl: string;
  /** What a client is to ask for there. */
  readonly scopes: readonly string[];
  /** Whether a client gets an API key there; else a user token. */
  readonly handsOutKeys: boolean;
}

/** Null if the problem is not about credentials. Without `signIn` it names no metadata. */
export function challengeFor(problem: Problem, signIn: SignIn | null): string | null {
  const { code } = problem;
  const where = {
    scope: (signIn && joinScopes(signIn.scopes)) || null,
    resource_metadata: signIn?.metadataUrl ?? null,
  };
  switch (code) {
    case 'missing_token':
    case 'missing_api_key':
      // RFC 6750 §3.1: no error code when no credential was sent.
      return parameters({ realm: SERVER_NAME, ...where });
    case 'invalid_token':
    case 'invalid_api_key':
      return parameters({
        error: 'invalid_token',
        // The same for keys and user tokens.
        error_description: 'wanted' in problem ? publicPart(problem).detail : problemText(code).detail,
        ...where,
      });
    case 'insufficient_scope':
      return parameters({
        error: code,
        error_description: problemText(code).detail,
        // Its grammar wants at least one (RFC 6749 §3.3).
        scope: joinScopes(problem.required) || null,
      });
    default:
      return null;
  }
}

const parameters = (named: Readonly<Record<string, string | null>>) =>
  `Bearer ${Object.entries(named)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}="${value}"`)
    .join(', ')}`;
