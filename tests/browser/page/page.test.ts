// The page /keys: its document, the ways in that need no issuer, and what one does there.

import { expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { describeInBrowser } from '../../support/browser.ts';
import { createIssuer } from '../../support/issuer.ts';
import { ADMINS, createTestApp, type TestApp } from '../../support/test-app.ts';
import { isInMemory } from '../widgets/heap.ts';
import { appForBrowser, historyOf, pasteToken, withKeysPage } from './keys-page.ts';

test('the page runs the scripts and styles it has, by hash, and reaches its own origin alone', async () => {
  await using app = await createTestApp();
  const response = await fetch(`${app.url}/keys`);
  const header = (name: string) => response.headers.get(name);
  expect(response.status).toBe(200);
  expect(header('content-type')).toBe('text/html; charset=utf-8');
  expect(header('cache-control')).toBe('no-store');
  expect(header('referrer-policy')).toBe('no-referrer');
  expect(header('cross-origin-opener-policy')).toBe('same-origin');
  expect(header('x-frame-options')).toBe('DENY');
  expect(header('set-cookie')).toBeNull();
  const policy = header('content-security-policy') ?? '';
  const directives = new Map(policy.split('; ').map((directive) => directive.split(/ (.*)/) as [string, string]));
  expect(directives.get('default-src')).toBe("'none'");
  for (const name of ['frame-ancestors', 'base-uri', 'form-action']) expect(directives.get(name)).toBe("'none'");
  expect(directives.get('connect-src')).toBe("'self'");
  expect(policy).not.toMatch(/unsafe|\*|https?:|frame-src/);
  const html = await response.text();
  const [, script = ''] = /<script type="module">(.*?)<\/script>\n<\/body>/s.exec(html) ?? [];
  const [, style = ''] = /<style>(.*?)<\/style>/s.exec(html) ?? [];
  for (const [name, text] of [
    ['script-src', script],
    ['style-src', style],
  ] as const)
    expect(directives.get(name)).toContain(createHash('sha256').update(text).digest('base64'));
  expect(policy).toContain("require-trusted-types-for 'script'");
});

test('the operators’ part is allowed by its address, and under an IPv6 address, which no policy can name, as its own', async () => {
  await using app = await createTestApp({ env: ADMINS });
  const { host, port } = new URL(app.url);
  const policyUnder = async (name: string) =>
    (await fetch(`${app.url}/keys`, { headers: { host: name } })).headers.get('content-security-policy');
  expect(await policyUnder(host)).toContain(`script-src ${app.url}/keys/operators.js 'sha256-`);
  expect(await policyUnder(`[::1]:${port}`)).toContain("script-src 'self' 'sha256-");
});

test('the page is not there with KEYS_PAGE=0, and a scope that is markup stays text', async () => {
  await using without = await createTestApp({ env: { KEYS_PAGE: '0' } });
  expect((await fetch(`${without.url}/keys`)).status).toBe(404);
  await using app = await createTestApp({ env: { KEY_SCOPES: '</script><script>alert(1)</script> &amp read' } });
  const html = await (await fetch(`${app.url}/keys`)).text();
  expect(html).not.toContain('<script>alert');
});

/** Returns a workload's token that a rule lets in as a key. */
async function workloads(app: TestApp): Promise<string> {
  await using issuer = await createIssuer();
  const id = (await app.keys('create', '--user', 'acme', '--name', 'job', '--scope', 'read', '--no-secret')).trim();
  await app.keys('rule', 'add', id, '--issuer', issuer.url, '--subject', 'job');
  app.clock.advance(1000); // the server learns that there are rules
  const nowS = Math.floor(Date.now() / 1000);
  return issuer.token({ sub: 'job', aud: app.url, iat: nowS, exp: nowS + 300 });
}

describeInBrowser('the ways in', (browser) => {
  test('name the command that makes a link as it is typed here, and the settings it needs, without their values', async () => {
    await using app = await createTestApp({ env: { JWT_ISSUER: 'https://issuer.example/secret' } });
    await withKeysPage(browser(), app, {}, async ({ page }) => {
      await page.getByText('It is made on the server').waitFor();
      const command = await page.locator('pre').textContent();
      const settings = `JWT_ISSUER=… PUBLIC_URL=${app.url}`;
      expect(command?.trim().replace(/^DATABASE_URL=… /, '')).toBe(`${settings} bun run token --sub your-name --link`);
      await page.getByRole('button', { name: 'Copy the command' }).click();
      await page.getByText('Copied.').waitFor();
      expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(command?.trim() ?? '');
      expect(await page.content()).not.toContain('issuer.example/secret');
    });
  });

  test('a link that is signed with another secret, or over, says so; one that is opened in the same tab signs in', async () => {
    await using app = await appForBrowser();
    const forged = `${(await app.token('alice')).slice(0, -6)}forged`;
    await withKeysPage(browser(), app, { at: `#token=${forged}` }, async ({ page }) => {
      const open = (token: string) => page.evaluate((hash) => location.assign(hash), `#token=${token}`);
      const said = page.getByRole('alert');
      await said.getByText('it was not signed for this server: with another secret').waitFor();
      await open(await workloads(app));
      await said.getByText('This tool needs a user token; an API key was sent').waitFor();
      await open(await app.token('alice', { exp: 1_700_000_000 }));
      await said.getByText('The user token has expired').waitFor();
      await open(await app.token('bob'));
      await page.getByText('Signed in as bob').waitFor();
      expect((await historyOf(page)).join(' ')).not.toContain('token');
    });
  });

  test('a token whose claims name nobody says so', async () => {
    await using app = await appForBrowser({ env: { JWT_OWNER_CLAIM: 'org_id' } });
    await withKeysPage(browser(), app, {}, async ({ page }) => {
      const open = (token: string) => page.evaluate((hash) => location.assign(hash), `#token=${token}`);
      const said = page.getByRole('alert');
      await open(await app.token('alice'));
      await said.getByText('its claim org_id must be a text').waitFor();
      await open(await app.token('alice', { org_id: 'acme', sub: 17 as unknown as string }));
      await said.getByText('its claim sub must be a text').waitFor();
      await open(await app.token('alice', { org_id: 'acme' }));
      await page.getByText('Signed in as alice').waitFor();
    });
  });
});

describeInBrowser('the page /keys', (browser) => {
  test('takes 90,000 bytes at most', async () => {
    await using app = await createTestApp({ env: { OAUTH_DEVICE: '1', ADMIN_CLAIM: 'roles=keys-admin' } });
    const page = await fetch(`${app.url}/keys`);
    expect((await page.arrayBuffer()).byteLength).toBeLessThanOrEqual(90_000);
  });

  test('takes a token from a link, below a base path too, and leaves it in no address, history or storage', async () => {
    await using app = await appForBrowser({ env: { BASE_PATH: '/api' } });
    const token = await app.token('alice');
    await withKeysPage(browser(), app, { at: `#token=${token}` }, async ({ page, requests }) => {
      await page.getByText('Signed in as alice').waitFor();
      expect(page.url()).toBe(`${app.url}/keys`);
      expect((await historyOf(page)).join(' ')).not.toContain('token');
      expect(requests).toEqual([`GET ${app.url}/keys`, `POST ${app.url}/tools/list_api_keys`]);
      expect(await page.content()).not.toContain(token);
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByRole('heading', { name: 'Sign in' }).waitFor();
      // The browser's own record of how the page was loaded has gone with the page.
      expect(await page.evaluate(() => JSON.stringify(performance.getEntries()))).not.toContain(token);
      expect((await historyOf(page)).join(' ')).not.toContain('token');
    });
    expect(await app.logText()).not.toContain(token);
  });

  test('creates a key for somebody who pasted a token, with scopes of tools and others, and forgets it once saved', async () => {
    await using app = await appForBrowser();
    const token = await app.token('alice');
    await withKeysPage(browser(), app, {}, async ({ page, context }) => {
      await pasteToken(page, token);
      await page.getByRole('textbox', { name: 'Name' }).fill('billing export');
      await page.getByRole('checkbox', { name: 'read' }).check(); // which a tool asks for
      await page.getByRole('textbox', { name: 'Other scopes' }).fill('write  read');
      await page.getByRole('button', { name: 'Create key' }).click();
      const scopes = page.getByRole('group', { name: /^New key of/ }).getByRole('list', { name: 'Scopes' });
      await scopes.waitFor();
      expect(await scopes.getByRole('listitem').allTextContents()).toEqual(['read', 'write']);
      await page.getByRole('button', { name: 'Copy', exact: true }).click();
      await page.getByText('Copied. Paste it where it is kept safe.').waitFor();
      const key = await page.evaluate(() => navigator.clipboard.readText());
      expect((await app.call('whoami', {}, { 'x-api-key': key })).body).toMatchObject({
        name: 'billing export',
        owner: 'alice',
        scopes: ['read', 'write'],
      });
      const memory = await context.newCDPSession(page);
      const random = key.slice(-32);
      expect(await isInMemory(memory, random)).toBe(true); // the look finds what is there
      await page.getByRole('button', { name: 'I have saved it' }).click();
      await page.getByRole('button', { name: 'Rotate billing export' }).waitFor();
      expect(await page.content()).not.toContain(key);
      expect(await isInMemory(memory, random)).toBe(false);
    });
  });
});
