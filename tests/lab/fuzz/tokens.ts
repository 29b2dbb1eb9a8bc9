// Forged tokens of a user who never signs in, of every kind that a naive verifier accepts.

import fc from 'fast-check';
import { encodePart, handmade } from '../../support/handmade-token.ts';
import type { PlantedSecrets } from './planted-secrets.ts';

/** Nobody has a good token of this user, so nobody can make a key of theirs. */
export const VICTIM = 'victim';

const ALGORITHMS = ['none', 'None', 'HS256', 'hs256', 'HS512', 'ES256', 'RS256', 'PS256', 'EdDSA', 'dir', '', 0, null];
const KEY_IDS = [
  'first',
  '',
  '../../../../dev/null',
  "' OR 1=1 --",
  'http://127.0.0.1:1/',
  '\0',
  7,
  null,
  {},
  'x'.repeat(2000),
];
const PUBLIC_KEY = { kty: 'EC', crv: 'P-256', x: 'A'.repeat(43), y: 'A'.repeat(43) };

const header = fc.record<Record<string, unknown>>(
  {
    alg: fc.constantFrom<unknown[]>(...ALGORITHMS, ['HS256']),
    kid: fc.constantFrom<unknown[]>(...KEY_IDS),
    typ: fc.constantFrom<unknown[]>('JWT', 'at+jwt', 'JOSE', 0),
    jwk: fc.constantFrom<unknown[]>(PUBLIC_KEY, { kty: 'oct', k: 'AAAA' }, null),
    jku: fc.constant('http://127.0.0.1:1/jwks'),
    x5u: fc.constant('http://127.0.0.1:1/cert'),
    x5c: fc.constant(['MIIB']),
    crit: fc.constantFrom<unknown[]>(['b64'], ['exp'], [], 'b64'),
    b64: fc.boolean(),
    zip: fc.constantFrom<unknown[]>('DEF', 'GZ', 1),
    enc: fc.constant('A256GCM'),
  },
  { requiredKeys: [] },
);

const TIMES = [4_000_000_000, '4000000000', 1e308, -1, 0, null, true];

function payload({ claims }: PlantedSecrets): fc.Arbitrary<string> {
  const made = fc.record<Record<string, unknown>>(
    {
      ...Object.fromEntries(Object.entries(claims).map(([name, value]) => [name, fc.constant(value)])),
      sub: fc.constantFrom<unknown[]>(VICTIM, VICTIM, [VICTIM], { sub: VICTIM }),
      exp: fc.constantFrom<unknown[]>(4_000_000_000, ...TIMES),
      nbf: fc.constantFrom<unknown[]>(...TIMES),
      iat: fc.constantFrom<unknown[]>(...TIMES),
    },
    { requiredKeys: ['sub', 'exp', ...Object.keys(claims)] },
  );
  return fc.tuple(made, fc.nat(9)).map(([object, form]) => {
    const text = JSON.stringify(object);
    if (form === 0) return text.replace('{', '{"sub":"user-0",'); // a claim given twice
    return form === 1 ? text.slice(0, -1) : text;
  });
}

/** What somebody without the key may sign with. */
const GUESSED_SECRETS = ['', 'secret', JSON.stringify(PUBLIC_KEY)];

/** `Bearer` tokens, none of them good. */
export function forgedTokens(planted: PlantedSecrets): fc.Arbitrary<string> {
  const stolen = planted.tokens.map((token) => token.split('.')[2] ?? '');
  return fc
    .tuple(
      header,
      payload(planted),
      fc.constantFrom(...stolen.slice(0, 3), '', 'AA', 'A'.repeat(86), ...GUESSED_SECRETS.map((_, index) => index)),
    )
    .map(([head, body, how]) =>
      typeof how === 'number'
        ? handmade(head, body, GUESSED_SECRETS[how] ?? '')
        : `${encodePart(head)}.${encodePart(body)}.${how}`,
    );
}
