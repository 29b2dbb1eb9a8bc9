// What is checked of a workload's token before its signature: whose it is, and each limit at, below and above. Looks inside:
// over HTTP all of these are one answer.

import { expect, test } from 'bun:test';
import { parseConfig } from '../../../src/config/config.ts';
import { ruleSettings } from '../../../src/doors/rules/settings.ts';
import { candidatesOf, EARLY_CHECKS, fitOf } from '../../../src/doors/rules/token-checks.ts';
import { createServerAddress } from '../../../src/ground/server-address.ts';
import { isUsers } from '../../../src/users/user-token.ts';
import { everything } from '../../support/everything.ts';
import { seeded } from '../../support/model-user.ts';
import { randomToken, waysOf, whose } from './random-tokens.ts';

const NOW_MS = 1_800_000_000_000;
const NOW = NOW_MS / 1000;
const HEADER = { alg: 'RS256', kid: 'a', typ: 'JWT' };
const PAYLOAD = { iss: 'https://issuer.example', sub: 'job', aud: 'us', iat: NOW, exp: NOW + 300 };

/** The first check that fails, of a token with these members as JSON; a member of undefined is left out. */
function refusal(header: Readonly<Record<string, unknown>>, payload: Readonly<Record<string, unknown>>) {
  const read = (value: unknown) => JSON.parse(JSON.stringify(value).replaceAll('"1e400"', '1e400'));
  const token = { header: read({ ...HEADER, ...header }), payload: read({ ...PAYLOAD, ...payload }) };
  for (const refusalOf of Object.values(EARLY_CHECKS)) {
    const refusal = refusalOf(token, NOW_MS);
    if (refusal !== null) return refusal;
  }
  return null;
}

test.each([
  [{}, null],
  [{ alg: 'ES256' }, null],
  [{ alg: 'EdDSA' }, null],
  [{ alg: 'Ed25519' }, null],
  [{ alg: 'none' }, 'header'],
  [{ alg: 'None' }, 'header'],
  [{ alg: 'HS256' }, 'header'],
  [{ alg: 'ES256K' }, 'header'],
  [{ alg: ['RS256'] }, 'header'],
  [{ alg: undefined }, 'header'],
  [{ typ: undefined }, null],
  [{ typ: 'jwt' }, null],
  [{ typ: 'JOSE' }, null],
  [{ typ: 'at+jwt' }, null],
  [{ typ: 'application/AT+JWT' }, null],
  [{ typ: 'application/jwt' }, null],
  [{ typ: 'application/application/jwt' }, 'header'],
  [{ typ: '' }, 'header'],
  [{ typ: null }, 'header'],
  [{ typ: 1 }, 'header'],
  [{ typ: 'jwt ' }, 'header'],
  [{ typ: 'oauth-id-jag+jwt' }, 'header'],
  [{ typ: 'logout+jwt' }, 'header'],
  [{ typ: 'secevent+jwt' }, 'header'],
  [{ typ: 'dpop+jwt' }, 'header'],
  [{ typ: 'token-introspection+jwt' }, 'header'],
  [{ crit: ['b64'], b64: true }, 'header'],
  [{ crit: [] }, 'header'],
  [{ crit: null }, 'header'],
  [{ jku: 'https://evil.example', jwk: {}, x5c: [] }, null],
])('a header with %j: %p', (header, expected) => {
  expect(refusal(header, {})).toBe(expected as never);
});

test.each([
  [{ exp: NOW + 0.001 }, null],
  [{ exp: NOW }, 'expired'],
  [{ exp: NOW - 3 }, 'expired'],
  [{ exp: String(NOW + 300) }, 'lifetime'],
  [{ exp: '1e400' }, 'lifetime'],
  [{ exp: null }, 'lifetime'],
  [{ exp: undefined }, 'lifetime'],
  [{ iat: undefined }, 'lifetime'],
  [{ iat: '1e400' }, 'lifetime'],
  [{ iat: NOW + 5 }, null],
  [{ iat: NOW + 5.001 }, 'not yet'],
  [{ iat: NOW + 3600 }, 'not yet'],
  [{ nbf: NOW + 5 }, null],
  [{ nbf: NOW + 6 }, 'not yet'],
  [{ nbf: String(NOW) }, 'lifetime'],
  [{ nbf: null }, 'lifetime'],
  [{ iat: NOW, exp: NOW + 25 * 3600 }, null],
  [{ iat: NOW, exp: NOW + 25 * 3600 + 1 }, 'lifetime'],
  [{ iat: NOW - 26 * 3600 }, 'lifetime'],
  [{ exp: NOW_MS }, 'lifetime'],
])('a payload with the times %j: %p', (payload, expected) => {
  expect(refusal({}, payload)).toBe(expected as never);
});

test.each([
  [{ cnf: { jkt: 'a' } }, 'claims'],
  [{ cnf: null }, 'claims'],
  [{ nonce: 'a' }, 'claims'],
  [{ nonce: '' }, 'claims'],
  [{ sub: undefined }, 'claims'],
  [{ sub: '' }, 'claims'],
  [{ sub: 1 }, 'claims'],
  [{ sub: ['job'] }, 'claims'],
  [{ sub: 'a\0b' }, 'claims'],
  [{ sub: '__proto__' }, null],
])('a payload with %j: %p', (payload, expected) => {
  expect(refusal({}, payload)).toBe(expected as never);
});

test('a subject has 512 characters at most', () => {
  expect(refusal({}, { sub: 'x'.repeat(512) })).toBeNull();
  expect(refusal({}, { sub: '🌍'.repeat(512) })).toBeNull();
  expect(refusal({}, { sub: 'x'.repeat(513) })).toBe('claims');
});

const RULE = {
  id: '0'.repeat(32),
  keyId: '1'.repeat(32),
  hash: '2'.repeat(64),
  issuer: PAYLOAD.iss,
  subject: 'job',
  audiences: [],
  claims: ['ref=main'],
  scopes: null,
};

test.each([
  [{ aud: 'us', ref: 'main' }, []],
  [{ aud: ['them', 'us'], ref: 'main' }, []],
  [{ aud: [], ref: 'main' }, ['audience']],
  [{ aud: undefined, ref: 'main' }, ['audience']],
  [{ aud: [['us']], ref: 'main' }, ['audience']],
  [{ aud: 'US', ref: 'main' }, ['audience']],
  [{ aud: { us: 'us' }, ref: 'main' }, ['audience']],
  [{ aud: 'them', sub: 'other', ref: 'dev' }, ['audience', 'subject', 'claims']],
  [{ aud: 'us', ref: ['main'] }, ['claims']],
])('a payload with %j fails at %j of a rule', (payload, failing) => {
  const fit = Object.entries(fitOf(RULE, { header: HEADER, payload: { ...PAYLOAD, ...payload } }, ['us', 'us/']));
  expect(fit.filter(([, fits]) => !fits).map(([check]) => check)).toEqual(failing);
});

const TOKENS = everything ? 100_000 : 20_000;

test(`of ${TOKENS} random tokens none is a user’s and a rule’s, and each is whose it should be`, () => {
  const random = seeded(23);
  const [ofUsers, ofPlatform] = ['https://users.example', 'https://platform.example'];
  const ways = waysOf(ofUsers, 'https://users.example/jwks');
  const unnamed = ways.map(({ PUBLIC_URL: _, ...way }) => ({ JWT_ISSUER: ofUsers, ...way }));
  const servers = [...ways, ...unnamed, {}].flatMap((env) =>
    [[ofUsers, ofPlatform], [ofUsers], [ofPlatform]].map((issuers) => {
      const config = parseConfig(env);
      if (!config.ok) throw new Error(config.error.join('\n'));
      const { users } = ruleSettings({ config: config.value, address: createServerAddress(config.value) });
      return { env, users, byIssuer: new Map(issuers.map((issuer) => [issuer, [{ ...RULE, issuer }]])) };
    }),
  );
  const counts = { user: 0, rule: 0, nobody: 0 };
  for (let made = 0; made < TOKENS; made += 1) {
    const { env, users, byIssuer } = servers[made % servers.length] as (typeof servers)[number];
    const token = randomToken(random, [ofUsers, ofPlatform], NOW_MS);
    const expected = whose(token, env, new Set(byIssuer.keys()));
    const isUser = isUsers(token.header, token.payload, users);
    const isRule = candidatesOf(token, byIssuer, users) !== null;
    const as = isUser && isRule ? 'both' : isUser ? 'user' : isRule ? 'rule' : 'nobody';
    if (as !== expected) expect({ token, env, as }).toEqual({ token, env, as: expected });
    counts[expected] += 1;
  }
  for (const count of Object.values(counts)) expect(count).toBeGreaterThan(TOKENS / 10);
});
