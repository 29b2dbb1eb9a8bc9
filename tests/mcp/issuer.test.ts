// Signing in with a certified authorization server, oidc-provider, which refuses a request for no scope. The clients are
// the official ones, registered by themselves and beforehand.

import { describe, expect, test } from 'bun:test';
import { testClock } from '../support/clock.ts';
import { rows } from '../support/everything.ts';
import { CALLBACK } from '../support/hand-over.ts';
import { createSignIn } from '../support/oauth-client.ts';
import { CLIENTS, isUnauthorized } from '../support/oauth-clients.ts';
import { createOpenidProvider } from '../support/openid-provider.ts';
import { shared } from '../support/shared.ts';
import { sharedApp } from '../support/test-app.ts';

const BEFOREHAND = 'beforehand';

const provider = await shared(createOpenidProvider({ scopes: 'keys', registers: true }));
await provider.begin(BEFOREHAND, CALLBACK);
const app = await sharedApp({
  env: { JWT_SECRET: undefined, JWT_ISSUER: provider.url, JWT_SCOPES: 'openid keys' },
  clock: testClock(Date.now()),
});

/** A browser in small: follows redirects with cookies, and signs in and consents in the forms that it is shown. */
async function signInAs(page: URL): Promise<Response> {
  const cookies = new Map<string, string>();
  let url = page.href;
  let init: RequestInit = {};
  for (let hops = 0; hops < 20; hops += 1) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url, { ...init, headers: { cookie }, redirect: 'manual' });
    for (const set of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
      cookies.set(name, value);
    }
    const location = response.headers.get('location');
    if (location?.startsWith(CALLBACK)) return response;
    if (location !== null) {
      url = new URL(location, url).href;
      init = {};
      continue;
    }
    const html = await response.text();
    const [, action] = /<form[^>]* action="([^"]+)"/.exec(html) ?? [];
    if (action === undefined) throw new Error(`${response.status}: ${html.slice(0, 500)}`);
    const prompt = /name="prompt" value="(\w+)"/.exec(html)?.[1] ?? '';
    url = new URL(action, url).href;
    init = { method: 'POST', body: new URLSearchParams({ prompt, login: 'alice', password: 'x' }) };
  }
  throw new Error('more redirects than a sign-in has');
}

const CREATE = { name: 'create_api_key', arguments: { name: 'by OAuth', scopes: ['read'] } };

describe.each(Object.entries(CLIENTS))('%s', (_client, { path, connection }) => {
  const registrations = [
    ['registers itself', undefined],
    ['was registered beforehand', { client_id: BEFOREHAND }],
  ] as const;
  test.each(rows(registrations, 1))(
    '%s, signs in at the issuer with the scopes it is told, and creates a key',
    async (_, information) => {
      const person = createSignIn(signInAs, information);
      const client = connection(new URL(app.url + path), person.provider);
      await client.connect();
      const refused = await client.callTool(CREATE).catch((error: unknown) => error);
      expect(isUnauthorized(refused)).toBe(true);
      expect(person.authorizationUrl()?.searchParams.get('scope')).toBe('openid keys');
      await client.finishAuth(await person.signIn());
      expect(await client.callTool(CREATE)).toMatchObject({ structuredContent: { name: 'by OAuth' } });
      await client.close();
    },
  );
});
