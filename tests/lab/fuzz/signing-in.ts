// What comes to the routes of Connect: by a client that is registered, with something wrong about it; or anything at all.

import { createHash } from 'node:crypto';
import fc from 'fast-check';
import type { ParsedResponse } from '../../support/http-responses.ts';
import { bytesOf } from './json.ts';
import type { Draft } from './messages.ts';
import type { PlantedSecrets } from './planted-secrets.ts';
import type { Target } from './settings.ts';

export interface PlantedClient {
  readonly id: string;
  /** The only one whose forms are taken. */
  readonly origin: string;
  /** Good for a minute, for once. */
  readonly codes: readonly string[];
}

const REDIRECT = 'http://127.0.0.1:9/callback';
const VERIFIER = 'v'.repeat(43);
const CODES = 20;
const FORM_TYPE = ['Content-Type', 'application/x-www-form-urlencoded'] as const;
const JSON_TYPE = ['Content-Type', 'application/json'] as const;

const authorization = (clientId: string): Record<string, string> => ({
  response_type: 'code',
  client_id: clientId,
  redirect_uri: REDIRECT,
  code_challenge: createHash('sha256').update(VERIFIER).digest('base64url'),
  code_challenge_method: 'S256',
  state: 's',
});

/** Null where no key is handed out. */
export async function plantClient(target: Target, key: string): Promise<PlantedClient | null> {
  const { origin } = new URL(target.server.url);
  const post = (path: string, body: string, type: string) =>
    target.fetch(path, { method: 'POST', body, headers: { 'content-type': type, origin }, redirect: 'manual' });
  const registered = await post('/register', JSON.stringify({ redirect_uris: [REDIRECT] }), 'application/json');
  if (registered.status === 404) return null;
  const { client_id: id } = (await registered.json()) as { client_id: string };
  const form = new URLSearchParams({ ...authorization(id), key }).toString();
  const codes = await Promise.all(
    Array.from({ length: CODES }, async () => {
      const { headers } = await post('/authorize', form, FORM_TYPE[1]);
      return new URL(headers.get('location') ?? '').searchParams.get('code') ?? '';
    }),
  );
  return { id, origin, codes };
}

/** What is wrong with where a response sends somebody. The redirects of a client differ at most in their port. */
export function redirectFault({ status, headers }: ParsedResponse): string | null {
  const location = headers.get('location');
  if (location === undefined) return status === 303 ? 'sent nowhere' : null;
  return /^http:\/\/127\.0\.0\.1(:\d+)?\/callback\?/.test(location) ? null : `sent to ${location}`;
}

const NAMES = [
  ...Object.keys(authorization('')),
  'resource',
  'key',
  'cancel',
  'grant_type',
  'code',
  'code_verifier',
  '%',
];

/** What comes to the door for clients that speak only OAuth. */
export function signingIn(planted: PlantedSecrets): fc.Arbitrary<Draft> {
  const { client, keys, badKeys, tokens } = planted;
  const value = fc.oneof(
    fc.constantFrom(...keys, ...badKeys, ...tokens, '', '%00', '%ff', '%'),
    fc.constantFrom('code', 'authorization_code', 'S256', 'http://127.0.0.1:1/', 'javascript:alert(1)', 'WyIiXQ.AAAA'),
    fc.constantFrom(
      'http://127.0.0.1:1/callback',
      'http://127.0.0.1.:9/callback',
      `${REDIRECT}#`,
      `${REDIRECT}\r\nX: y`,
    ),
    fc.string(),
  );
  const post = (target: string, text: string, origin: string | null): Draft => ({
    method: 'POST',
    target,
    headers: origin === null ? [FORM_TYPE] : [FORM_TYPE, ['Origin', origin]],
    body: undefined,
    text,
  });
  const anything = fc
    .tuple(
      fc.constantFrom('/authorize', '/token'),
      fc.array(fc.tuple(fc.constantFrom(...NAMES), value), { maxLength: 8 }),
      fc.constantFrom(null, 'http://localhost'),
    )
    .map(([target, pairs, origin]) => post(target, bytesOf(pairs.map((pair) => pair.join('=')).join('&')), origin));
  const registration = fc.record({
    redirect_uris: fc.array(fc.constantFrom('http://127.0.0.1/', 'http://localhost:1/a', 'https://x.example/', '')),
    token_endpoint_auth_method: fc.constantFrom('none', 'client_secret_post'),
  });
  const registered = registration.map((body) => ({ method: 'POST', target: '/register', headers: [JSON_TYPE], body }));
  if (client === null) return fc.oneof(anything, registered);

  /** A good form with up to two fields left out, changed or added. What `state` is comes back, so no secret goes in. */
  const nearly = (good: Record<string, string>) =>
    fc
      .array(fc.tuple(fc.constantFrom(...NAMES.filter((name) => name !== 'state')), fc.option(value)), { maxLength: 2 })
      .map((changes) => {
        const fields = Object.entries({ ...good, ...Object.fromEntries(changes) });
        return new URLSearchParams(fields.filter((field): field is [string, string] => field[1] !== null)).toString();
      });
  const asked = fc
    .record({ state: fc.constantFrom('s', '', '"><script>', '\r\nX: y'), key: fc.constantFrom(...keys, ...badKeys) })
    .chain((typed) => nearly({ ...authorization(client.id), ...typed }));
  const opened = nearly(authorization(client.id)).map((query) => ({
    method: 'GET',
    target: `/authorize?${query}`,
    headers: [],
    body: undefined,
  }));
  const redeemed = fc
    .constantFrom(...client.codes)
    .chain((code) => nearly({ grant_type: 'authorization_code', client_id: client.id, code, code_verifier: VERIFIER }));
  return fc.oneof(
    anything,
    registered,
    opened,
    asked.map((text) => post('/authorize', text, client.origin)),
    redeemed.map((text) => post('/token', text, null)),
  );
}
