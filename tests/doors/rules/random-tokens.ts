// Random tokens, and whose they are by what is promised alone: a second implementation, which knows nothing of the first.

import { TEST_SECRET } from '../../support/test-app.ts';

// biome-ignore lint/suspicious/noExplicitAny: a token says anything
type Fields = Record<string, any>;

export interface UnsignedToken {
  readonly header: Fields;
  readonly payload: Fields;
}

type Env = Readonly<Record<string, string>>;

export const PUBLIC_URL = 'https://tools.example/api';

/** Each way of verifying users, by tokens of this issuer. */
export const waysOf = (issuer: string, jwksUrl: string): readonly Env[] => [
  { PUBLIC_URL, JWT_SECRET: TEST_SECRET },
  { PUBLIC_URL, JWT_SECRET: TEST_SECRET, JWT_ISSUER: issuer, JWT_AUDIENCE: 'audience' },
  { PUBLIC_URL, JWT_ISSUER: issuer },
  { PUBLIC_URL, JWT_ISSUER: issuer, JWT_JWKS_URL: jwksUrl },
  { PUBLIC_URL, JWT_ISSUER: issuer, JWT_AUDIENCE: 'audience' },
  { PUBLIC_URL, JWT_JWKS_URL: jwksUrl },
];

/** Whose a token is by what it says, at a server with these settings and rules of these issuers. */
export function whose({ header, payload }: UnsignedToken, env: Env, ofRules: ReadonlySet<unknown>) {
  const names = env.PUBLIC_URL ?? ['http://127.0.0.1:3000', 'http://localhost:3000', 'http://[::1]:3000'];
  const ofUsers = [names].flat().flatMap((url) => {
    const { origin } = new URL(url);
    return [origin, `${origin}/`, url, `${url}/mcp`, `${url}/sse`];
  });
  const audiences = env.JWT_AUDIENCE === undefined ? ofUsers : [env.JWT_AUDIENCE];
  const isForUsers = [payload.aud].flat().some((aud) => audiences.includes(aud));
  const isSigned = env.JWT_SECRET !== undefined || (env.JWT_ISSUER === undefined && env.JWT_JWKS_URL === undefined);
  const isUsers = isSigned
    ? header.alg === 'HS256'
    : env.JWT_ISSUER === undefined || (payload.iss === env.JWT_ISSUER && isForUsers);
  if (isUsers) return 'user';
  return ofRules.has(payload.iss) ? 'rule' : 'nobody';
}

export const AUDIENCES = `audience Audience other https://tools.example https://tools.example/ https://tools.example/api
  https://tools.example/api/ https://tools.example/api/mcp https://tools.example/mcp https://TOOLS.example
  http://127.0.0.1 http://127.0.0.1:3000/ http://localhost:3000 http://[::1]:3000/sse`.split(/\s+/);

const ALGORITHMS = ['HS256', 'HS256', 'ES256', 'ES256', 'ES256', 'hs256', 'HS512', 'none', 'RS256', ['HS256'], 2, null];

/** A token that is good but for what decides whose it is. `issuers`: whose tokens are usual. */
export function randomToken(random: () => number, issuers: readonly string[], nowMs: number): UnsignedToken {
  const one = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const odd = issuers.flatMap((issuer) => [`${issuer}/`, issuer.toUpperCase(), [issuer], { toString: issuer }]);
  const iss = random() < 0.7 ? one(issuers) : one([...odd, 'https://stranger.example', '', '__proto__', 1, null]);
  const aud = [one(AUDIENCES), [], [[one(AUDIENCES)]], { aud: one(AUDIENCES) }, true, null, undefined];
  const nowS = Math.floor(nowMs / 1000);
  return {
    header: { alg: one(ALGORITHMS), kid: 'first' },
    payload: {
      ...{ sub: 'job', iat: nowS, exp: nowS + 300, ...(random() < 0.95 && { iss }) },
      aud: random() < 0.5 ? one(AUDIENCES) : random() < 0.7 ? [one(AUDIENCES), 7, one(AUDIENCES)] : one(aud),
    },
  };
}
