// What comes to the doors where keys are handed out: by a client that is registered, a program that asks, and a person who
// decides, with something wrong about it; or anything at all.

import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { CALLBACK } from '../../support/hand-over.ts';
import type { ParsedResponse } from '../../support/http-responses.ts';
import { DEVICE_GRANT } from '../../support/key-request.ts';
import { bytesOf, FORM_TYPE, JSON_TYPE, jsonText, mutated } from './json.ts';
import type { Draft } from './messages.ts';
import type { PlantedSecrets } from './planted-secrets.ts';
import type { Target } from './settings.ts';

export interface PlantedClient {
  readonly id: string;
  /** The only one whose forms are taken. */
  readonly origin: string;
  /** Good for a minute, for once. */
  readonly codes: readonly string[];
  /** Of programs that ask, each good for ten minutes, for once. */
  readonly programs: readonly { readonly device_code: string; readonly user_code: string }[];
}

const VERIFIER = 'v'.repeat(43);
const CODES = 20;
const PROGRAMS = 40;

const authorization = (clientId: string): Record<string, string> => ({
  response_type: 'code',
  client_id: clientId,
  redirect_uri: CALLBACK,
  code_challenge: createHash('sha256').update(VERIFIER).digest('base64url'),
  code_challenge_method: 'S256',
  state: 's',
});

/** Null where no key is handed out. */
export async function plantClient(target: Target, key: string): Promise<PlantedClient | null> {
  const metadata = await target.fetch('/.well-known/oauth-authorization-server', {});
  if (metadata.status === 404) return null;
  const { origin } = new URL(((await metadata.json()) as { issuer: string }).issuer);
  const post = (path: string, body: string, type: string) =>
    target.fetch(path, { method: 'POST', body, headers: { 'content-type': type, origin }, redirect: 'manual' });
  const registered = await post('/register', JSON.stringify({ redirect_uris: [CALLBACK] }), 'application/json');
  const { client_id: id } = (await registered.json()) as { client_id: string };
  const form = new URLSearchParams({ ...authorization(id), key }).toString();
  const codes = await Promise.all(
    Array.from({ length: CODES }, async () => {
      const { headers } = await post('/authorize', form, FORM_TYPE[1]);
      return new URL(headers.get('location') ?? '').searchParams.get('code') ?? '';
    }),
  );
  const programs = await Promise.all(
    Array.from({ length: PROGRAMS }, async (_, at) => {
      const headers = { 'x-forwarded-for': `2001:db8:${at}::1` }; // each may have few open requests
      const asked = await target.fetch('/device_authorization', {
        method: 'POST',
        body: new URLSearchParams(),
        headers,
      });
      return (await asked.json()) as PlantedClient['programs'][number];
    }),
  );
  // Without a public address it is that of each request, and inputs are for `localhost`.
  const isOfRequest = origin === new URL(target.server.url).origin;
  return { id, origin: isOfRequest ? 'http://localhost' : origin, codes, programs };
}

/** The redirects of a client differ at most in their port. */
export const isOfClient = (location: string): boolean => /^http:\/\/127\.0\.0\.1(:\d+)?\/callback\?/.test(location);

/** What is wrong with where a response sends somebody. */
export function redirectFault({ status, headers }: ParsedResponse): string | null {
  const location = headers.get('location');
  if (location === undefined) return status === 303 ? 'sent nowhere' : null;
  return isOfClient(location) ? null : `sent to ${location}`;
}

const NAMES = [
  ...Object.keys(authorization('')),
  'resource',
  'key',
  'cancel',
  'grant_type',
  'code',
  'code_verifier',
  'device_code',
  'client_name',
  'scope',
  '%',
];

/** What a person decides, or may try to. */
const decided = fc.oneof(
  { weight: 2, arbitrary: fc.constant<object>({ name: 'client.example', scopes: ['read'], expiresInDays: 1 }) },
  {
    weight: 1,
    arbitrary: fc.record(
      {
        name: fc.constantFrom('client.example', 'ключ', '', ' '),
        scopes: fc.constantFrom<unknown[]>([], ['read'], ['read', 'x'], 'read', ['a b']),
        expiresInDays: fc.constantFrom<unknown[]>(1, 0, -1, 36_501, null),
        rateLimit: fc.constantFrom<unknown[]>({ requests: 5, window: '1h' }, { requests: 0, window: '1s' }, null),
        quota: fc.constantFrom<unknown[]>({ requests: 100, period: 'day' }, { requests: 1.5, period: 'year' }),
      },
      { requiredKeys: ['name', 'scopes'] },
    ),
  },
);

/** What comes to the door for clients that speak only OAuth. */
export function signingIn(planted: PlantedSecrets): fc.Arbitrary<Draft> {
  const { client, keys, badKeys, tokens } = planted;
  const value = fc.oneof(
    fc.constantFrom(...keys, ...badKeys, ...tokens, '', '%00', '%ff', '%'),
    fc.constantFrom('code', 'authorization_code', 'S256', 'http://127.0.0.1:1/', 'javascript:alert(1)', 'WyIiXQ.AAAA'),
    fc.constantFrom(
      'http://127.0.0.1:1/callback',
      'http://127.0.0.1.:9/callback',
      `${CALLBACK}#`,
      `${CALLBACK}\r\nX: y`,
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
      fc.constantFrom('/authorize', '/token', '/device_authorization'),
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

  /**
   * A good form with up to two fields left out, changed or added. What `state` and `scope` are comes back, so no secret
   * goes in.
   */
  const nearly = (good: Record<string, string>) =>
    fc
      .array(
        fc.tuple(fc.constantFrom(...NAMES.filter((name) => name !== 'state' && name !== 'scope')), fc.option(value)),
        { maxLength: 2 },
      )
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
  const fetched = fc
    .constantFrom(...client.programs)
    .chain((program) => nearly({ grant_type: DEVICE_GRANT, device_code: program.device_code }));
  const asks = nearly({ client_name: 'agent', scope: 'read' });
  /** JSON of the page, by whoever sends it. */
  const said = (target: string, body: fc.Arbitrary<object>): fc.Arbitrary<Draft> =>
    jsonText(fc.oneof({ weight: 3, arbitrary: body }, { weight: 2, arbitrary: mutated(body, planted.secrets) })).map(
      (text) => ({ method: 'POST', target, headers: [JSON_TYPE], body: undefined, text }),
    );
  const userCode = fc.record({
    userCode: fc.oneof(
      fc.constantFrom(...client.programs.map(({ user_code: code }) => code)),
      fc.constantFrom('', 'BBBB-BBBB', 'bbbbbbbb', '\0', 'B'.repeat(101)),
    ),
  });
  const decision = fc
    .tuple(userCode, decided, fc.constantFrom<unknown[]>(true, true, false, 'true', null))
    .map(([code, chosen, approve]) => ({ ...code, ...(approve === false ? {} : chosen), approve }));
  const click = decided.map((chosen) => ({ ...authorization(client.id), ...chosen }));
  return fc.oneof(
    anything,
    registered,
    opened,
    said('/authorize', click),
    said('/device/request', userCode),
    said('/device/decision', decision),
    asks.map((text) => post('/device_authorization', text, null)),
    fetched.map((text) => post('/token', text, null)),
    asked.map((text) => post('/authorize', text, client.origin)),
    redeemed.map((text) => post('/token', text, null)),
  );
}
