// The whole way to a key in a browser, from what a program shows to its first call, and what is left of it anywhere: an
// official client that is connected by a click, with people of a certified issuer, and a program without a browser.

import { expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describeInBrowser, takePage } from '../../support/browser.ts';
import { rows } from '../../support/everything.ts';
import { askForKey, pollForKey } from '../../support/key-request.ts';
import { createSignIn } from '../../support/oauth-client.ts';
import { isUnauthorized, OVER_HTTP } from '../../support/oauth-clients.ts';
import { createOpenidProvider } from '../../support/openid-provider.ts';
import { eventsIn, type TestApp } from '../../support/test-app.ts';
import { appForBrowser, clientServer, historyOf, withKeysPage } from './keys-page.ts';

const ISSUER = { JWT_SECRET: '', KEYS_PAGE_CLIENT_ID: 'keys-page', ACCESS_LOG: '1', LOG_LEVEL: 'debug' };

/** Where these are found: the log, the trail, the database's files. */
async function tracesOf(app: TestApp, secrets: readonly string[]): Promise<string[]> {
  const files = readdirSync(app.folder).filter((file) => file.startsWith('keys.db'));
  const places = {
    log: await app.logText(),
    events: JSON.stringify(await eventsIn(app)),
    ...Object.fromEntries(files.map((file) => [file, readFileSync(join(app.folder, file), 'latin1')])),
  };
  return Object.entries(places)
    .filter(([, text]) => secrets.some((secret) => text.includes(secret)))
    .map(([place]) => place);
}

/** Addresses, bodies and headers of all that a browser sends, and of what it gets. */
function trafficOf(page: Page): string[] {
  const seen: string[] = [];
  page.context().on('request', (request) => {
    seen.push(`${request.method()} ${request.url()}`, request.postData() ?? '', JSON.stringify(request.headers()));
  });
  page.context().on('response', async (response) => {
    seen.push(JSON.stringify(response.headers()), await response.text().catch(() => ''));
  });
  return seen;
}

async function signInAt(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name: /^Sign in with/ }).click();
  await page.getByPlaceholder('Enter any login').fill(name);
  await page.getByPlaceholder('and password').fill('any');
  await page.getByRole('button', { name: 'Sign-in' }).click();
  await page.getByRole('button', { name: 'Continue' }).click();
}

describeInBrowser('from "connect" to the first call', (browser) => {
  test.each(rows(OVER_HTTP, 1))(
    '%s, with a certified issuer: the key is nowhere but with the client',
    async (_, kind) => {
      await using issuer = await createOpenidProvider();
      const env = { ...ISSUER, JWT_ISSUER: issuer.url, OAUTH_REDIRECTS: 'loopback' };
      await using app = await appForBrowser({ env, store: 'embedded' });
      await issuer.begin('keys-page', `${app.url}/keys`);
      await using server = clientServer();
      const { provider, authorizationUrl } = createSignIn(undefined, undefined, server.callback);
      const url = new URL(`${app.url}/mcp`);
      const first = kind.connection(url, provider);
      expect(isUnauthorized(await first.connect().catch((error: unknown) => error))).toBe(true);

      await using taken = await takePage(browser());
      const { page } = taken;
      const traffic = trafficOf(page);
      await page.goto(authorizationUrl()?.href ?? '');
      await page.getByRole('link', { name: 'Make a key for this connection' }).click();
      await signInAt(page, 'alice');
      await page.getByRole('heading', { name: /handed to a program on this computer/ }).waitFor();
      expect(await page.getByRole('checkbox', { name: 'read', exact: true }).isChecked()).toBe(true);
      await page.getByRole('button', { name: 'Make the key and hand it over' }).click();
      await page.getByText('connected').waitFor();
      const history = await historyOf(page);
      const left = await page.context().storageState();
      const { origin } = new URL(app.url);
      expect(left.origins.filter((place) => place.origin === origin)).toEqual([]);

      const [back] = server.asked;
      await first.finishAuth(back?.url.searchParams ?? new URLSearchParams());
      const client = kind.connection(url, provider);
      await client.connect();
      const result = (await client.callTool({ name: 'get_data', arguments: {} })) as { structuredContent: object };
      expect(result.structuredContent).toMatchObject({ owner: 'alice', key: { name: 'test, on this computer' } });
      await client.close();

      const key = (await provider.tokens())?.access_token ?? '';
      const code = back?.url.searchParams.get('code') ?? '';
      expect(key).toMatch(/^sk_test_[0-9a-f]{64}$/);
      expect(await tracesOf(app, [key, key.slice('sk_test_'.length), code])).toEqual([]);
      expect(traffic.filter((text) => text.includes(key))).toEqual([]);
      expect(history.join(' ')).not.toMatch(/connect=|sk_test_/);
      expect(back?.referrer).toBeNull();
      expect((await eventsIn(app)).map(({ kind: what, how, actor }) => [what, how, actor])).toEqual([
        ['created', 'oauth', 'alice'],
        ['connected', 'oauth', '127.0.0.1'],
      ]);
    },
  );

  test('a program without a browser, whose link is opened: key and codes are nowhere but with it', async () => {
    await using issuer = await createOpenidProvider();
    const env = { ...ISSUER, JWT_ISSUER: issuer.url, OAUTH_DEVICE: '1' };
    await using app = await appForBrowser({ env, store: 'embedded' });
    await issuer.begin('keys-page', `${app.url}/keys`);
    const { body: asked } = await askForKey(app, { client_name: 'agent', scope: 'read' });
    const at = asked.verification_uri_complete.slice(`${app.url}/keys`.length);
    let key = '';
    await withKeysPage(browser(), app, { at, issuer: issuer.url }, async ({ page, requests }) => {
      const traffic = trafficOf(page);
      await signInAt(page, 'alice');
      await page.getByText('Does the program that you started show this code?').waitFor();
      await page.getByRole('button', { name: 'Yes, it shows this code' }).click();
      await page.getByText('“agent”, in its own words').waitFor();
      await page.getByRole('checkbox', { name: 'read', exact: true }).check();
      await page.getByRole('button', { name: 'Make the key', exact: true }).click();
      await page.getByText('The program gets its key').waitFor();
      key = (await pollForKey(app, asked.device_code)).body.access_token;
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByRole('button', { name: 'Rotate agent' }).waitFor();
      expect((await app.useKey(key)).body).toMatchObject({ owner: 'alice', key: { name: 'agent' } });

      for (const secret of [key, asked.device_code]) {
        expect(traffic.filter((text) => text.includes(secret))).toEqual([]);
        expect(await page.content()).not.toContain(secret);
      }
      expect(requests.join(' ')).not.toContain(asked.user_code);
      expect((await historyOf(page)).join(' ')).not.toMatch(/ask=|sk_test_/);
    });
    const { user_code: userCode, device_code: deviceCode } = asked;
    const secrets = [key, key.slice('sk_test_'.length), deviceCode, userCode, userCode.replace('-', '')];
    expect(await tracesOf(app, secrets)).toEqual([]);
  });
});
