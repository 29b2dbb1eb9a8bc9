// Everything that the pages /keys and /authorize can show, for the pictures of them and for those who judge them.

import type { Page } from 'playwright-core';
import { confirm, press } from '../../support/browser.ts';
import { type DocumentServer, serveDocuments, trustAll } from '../../support/client-documents.ts';
import { testClock } from '../../support/clock.ts';
import { register } from '../../support/hand-over.ts';
import { createIssuer } from '../../support/issuer.ts';
import { askForKey } from '../../support/key-request.ts';
import { lenientIssuer } from '../../support/lenient-issuer.ts';
import { bearer, createTestApp, type Env, type TestApp } from '../../support/test-app.ts';
import { find, follow, link, pasteToken } from './keys-page.ts';

const DAY_MS = 86_400_000;
/** How often a key was used on each of two days. Older uses may not be written yet when the clock moves on by days. */
const CALLS_OF_DAYS = [6, 9];
const ISSUER = { JWT_SECRET: '', KEYS_PAGE_CLIENT_ID: 'keys-page' };
const ADMIN = { ADMIN_CLAIM: 'roles=keys-admin' };

export interface State {
  readonly name: string;
  readonly env?: () => Promise<Env>;
  /** Who comes with a link, and with what claims; nobody unless given. */
  readonly who?: readonly [sub: string, claims?: Record<string, unknown>];
  readonly hasKeys?: true;
  /** Brings the page from its first sight to the state. */
  readonly act?: (page: Page, app: TestApp) => Promise<unknown>;
  /** In place of the app's own address. */
  readonly host?: string;
  /** Where it is shown, in place of the page /keys. */
  readonly at?: (app: TestApp) => Promise<URL>;
  /** What is there once the state is reached. */
  readonly shows: (page: Page) => Promise<unknown>;
}

const text = (said: string | RegExp) => (page: Page) => page.getByText(said).waitFor();

const OWNED = { who: ['alice'], hasKeys: true } as const;

/** What an admin sees, who has no keys. */
const OPERATED = {
  env: async () => ({ ...ADMIN, OWNER_QUOTA: '20/day' }),
  who: ['carol', { roles: 'keys-admin', org_id: 'operations' }],
  hasKeys: true,
} as const;

const madeByAlice = (page: Page) =>
  page
    .getByRole('list', { name: 'History' })
    .getByText(/^Made by alice/)
    .waitFor();

const open = (page: Page) => press(page, 'Open alice');

async function fillIn(page: Page) {
  await press(page, 'Create a key');
  await page.getByRole('textbox', { name: 'Name' }).fill('billing export');
  await page.getByRole('textbox', { name: 'Other scopes' }).fill('read:orders read:products');
}

async function create(page: Page) {
  await fillIn(page);
  await press(page, 'Create key');
}

export const STATES: readonly State[] = [
  { name: 'sign-in', shows: text('Or paste a user token') },
  {
    name: 'sign-in-issuer',
    env: async () => ({ ...ISSUER, JWT_ISSUER: (await lenientIssuer()).url }),
    shows: (page) => page.getByRole('button', { name: /^Sign in with/ }).waitFor(),
  },
  {
    name: 'issuer-away',
    async env() {
      await using issuer = await createIssuer();
      return { ...ISSUER, JWT_ISSUER: issuer.url };
    },
    shows: text(/can’t be reached/),
  },
  {
    name: 'refused',
    act: (page) => pasteToken(page, 'eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl'),
    shows: text('Invalid or expired user token'),
  },
  {
    name: 'loading',
    async act(page, app) {
      await page.route('**/tools/list_api_keys', () => {}); // never answered
      await pasteToken(page, await app.token('alice'));
    },
    shows: text('Signing in…'),
  },
  {
    name: 'empty',
    who: ['alice'],
    shows: text('No API keys yet'),
  },
  {
    name: 'keys',
    ...OWNED,
    shows: text('5 keys'),
  },
  {
    name: 'plan',
    env: async () => ({ OWNER_QUOTA: '50/day', OWNER_RATE_LIMIT: '1000/1h', OWNER_KEYS: '10' }),
    ...OWNED,
    shows: text(/^\d of 50 a day$/), // none in the two hours after midnight
  },
  {
    name: 'opened',
    ...OWNED,
    act: (page) => press(page, 'More about CI pipeline'),
    shows: madeByAlice,
  },
  {
    name: 'renaming',
    ...OWNED,
    async act(page) {
      await press(page, 'More about CI pipeline');
      await press(page, 'Rename: CI pipeline');
    },
    shows: (page) => page.getByRole('textbox', { name: 'Name' }).waitFor(),
  },
  {
    name: 'narrowed',
    ...OWNED,
    async act(page) {
      await press(page, 'More about CI pipeline');
      await press(page, 'Fewer scopes: CI pipeline');
      await page.getByRole('checkbox', { name: 'read' }).uncheck();
      await press(page, 'Save');
    },
    shows: text('The last scope stays.'),
  },
  {
    name: 'sign-in-app',
    env: async () => ({ KEYS_PAGE_SIGN_IN: 'https://app.example/keys' }),
    shows: (page) => page.getByRole('button', { name: 'Sign in at app.example' }).waitFor(),
  },
  {
    name: 'sign-in-as',
    env: async () => ({ KEYS_PAGE_SIGN_IN: 'https://app.example/keys' }),
    who: ['alice', { name: 'Alice A.', org_id: 'x' }],
    shows: (page) => page.getByRole('heading', { name: 'Sign in as alice?' }).waitFor(),
  },
  {
    name: 'asked',
    ...OWNED,
    async act(page) {
      await press(page, 'More about nightly backup');
      await press(page, 'Delete nightly backup');
    },
    shows: (page) => page.getByRole('group', { name: 'Delete nightly backup?' }).waitFor(),
  },
  {
    name: 'rotated',
    ...OWNED,
    act: (page) => confirm(page, 'Rotate', 'CI pipeline'),
    shows: (page) => page.getByRole('group', { name: 'New key of CI pipeline' }).waitFor(),
  },
  {
    name: 'store-away',
    async act(page, app) {
      const problem = { status: 503, code: 'store_unavailable', detail: 'The key store is out of reach; try again' };
      await page.route('**/tools/list_api_keys', (route) => route.fulfill({ status: 503, json: problem }));
      await pasteToken(page, await app.token('alice'));
    },
    shows: text('The key store is out of reach'),
  },
  {
    name: 'not-refreshed',
    ...OWNED,
    async act(page) {
      await page.getByRole('button', { name: 'More about CI pipeline' }).waitFor();
      await page.route(/tools|events/, (route) => route.abort());
      await press(page, 'More about CI pipeline');
      await press(page, 'Refresh');
    },
    shows: (page) => page.getByRole('alert').getByText('The list could not be refreshed').waitFor(),
  },
  {
    name: 'form',
    ...OWNED,
    env: async () => ({ KEY_SCOPES: 'read write read:orders write:orders admin', KEY_MAX_DAYS: '180' }),
    act: (page) => press(page, 'Create a key'),
    shows: (page) => page.getByRole('heading', { name: 'New key' }).waitFor(),
  },
  {
    name: 'form-limits',
    ...OWNED,
    async act(page) {
      await press(page, 'Create a key');
      await page.getByText('Limits', { exact: true }).click();
      await page.getByLabel('Quota', { exact: true }).fill('5000');
    },
    shows: (page) => page.getByLabel('Rate limit', { exact: true }).waitFor(),
  },
  {
    name: 'not-created',
    ...OWNED,
    async act(page) {
      await fillIn(page);
      await page.getByRole('textbox', { name: 'Name' }).fill(' ');
      await press(page, 'Create key');
    },
    shows: text(/Expected a name that is not blank/),
  },
  {
    name: 'created',
    ...OWNED,
    act: create,
    shows: text('Or paste it with ready-made settings around it.'),
  },
  {
    name: 'expired',
    ...OWNED,
    async act(page, app) {
      await fillIn(page);
      app.clock.advance(2 * 3_600_000);
      await press(page, 'Create key');
    },
    shows: text(/what you have typed is kept/),
  },
  {
    name: 'owners',
    ...OPERATED,
    shows: (page) =>
      page
        .getByRole('list', { name: 'Owners' })
        .getByText(/uses in 30 days/)
        .waitFor(),
  },
  {
    name: 'all-keys',
    ...OPERATED,
    async act(page) {
      await press(page, 'All keys');
      await press(page, 'Expire within 7 days');
      await page.getByRole('button', { name: /^More about/ }).click();
    },
    shows: madeByAlice,
  },
  {
    name: 'owner',
    ...OPERATED,
    act: open,
    shows: text('Keys of alice'),
  },
  {
    name: 'owner-plan',
    ...OPERATED,
    async act(page) {
      await open(page);
      await press(page, 'Change the plan: alice');
    },
    shows: (page) => page.getByLabel('Keys, at most').waitFor(),
  },
  {
    name: 'owner-saved',
    ...OPERATED,
    async act(page) {
      await open(page);
      await press(page, 'Change the plan: alice');
      await page.getByLabel('Quota', { exact: true }).fill('4');
      await press(page, 'Save');
    },
    shows: text('Quota: was 20 a day, is 4 a day.'),
  },
  {
    name: 'owner-nobody',
    ...OPERATED,
    act: (page) => find(page, 'owner', 'Alice'),
    shows: text('Nobody of exactly this name has a key, or a history'),
  },
  {
    name: 'owner-found',
    ...OPERATED,
    async act(page, app) {
      const { body } = await app.call('admin_list_keys', {}, await bearer(app, ...OPERATED.who));
      await find(page, 'key', body.keys.find(({ name }: { name: string }) => name === 'old laptop').id);
    },
    shows: madeByAlice,
  },
  {
    name: 'owner-blocking',
    ...OPERATED,
    async act(page) {
      await open(page);
      await press(page, 'Block');
    },
    shows: (page) => page.getByRole('group', { name: 'Block alice?' }).waitFor(),
  },
  {
    name: 'owner-key',
    ...OPERATED,
    async act(page) {
      await open(page);
      await press(page, 'More about CI pipeline');
      await press(page, 'Change: CI pipeline');
    },
    shows: (page) => page.getByRole('textbox', { name: 'Name' }).waitFor(),
  },
  {
    name: 'connect',
    env: async () => ({ OAUTH_REDIRECTS: 'https://client.example/back' }),
    who: ['alice'],
    async act(page, app) {
      const client = await register(app, ['https://client.example/back']);
      const query = client.page({ scope: 'read write' }).search.slice(1);
      await text('Signed in as alice')(page); // what waits already would be asked about first
      await follow(page, { at: `#connect=${encodeURIComponent(query)}` });
    },
    shows: (page) => page.getByRole('heading', { name: /handed to client.example/ }).waitFor(),
  },
  {
    name: 'ask',
    env: async () => ({ OAUTH_DEVICE: '1' }),
    who: ['alice'],
    async act(page) {
      await text('Signed in as alice')(page);
      await follow(page, { at: '#ask=BCDF-GHJK' });
    },
    shows: text('Does the program that you started show this code?'),
  },
  {
    name: 'ask-typed',
    env: async () => ({ OAUTH_DEVICE: '1' }),
    ...OWNED,
    act: (page) => page.getByRole('link', { name: 'A program asks for a key' }).click(),
    shows: text('The code that the program shows'),
  },
  {
    name: 'asked-for',
    env: async () => ({ OAUTH_DEVICE: '1' }),
    who: ['alice'],
    async act(page, app) {
      const { user_code: code } = (await askForKey(app, { client_name: 'nightly deploy', scope: 'read deploy' })).body;
      await text('Signed in as alice')(page);
      await follow(page, { at: `#ask=${code}` });
      await press(page, 'Yes, it shows this code');
    },
    shows: text('in its own words'),
  },
  {
    name: 'elsewhere',
    env: async () => ({ PUBLIC_URL: 'https://keys.example' }),
    host: 'localhost',
    who: ['alice'],
    shows: text(/has its page at another address/),
  },
  {
    name: 'without-https',
    env: async () => ({ NODE_ENV: 'production' }),
    who: ['alice'],
    shows: text(/This page needs HTTPS/),
  },
];

const LOOPBACK = 'http://127.0.0.1:4999/callback';
const HOSTED = 'https://client.example/back';
const OF_APP = 'cursor://anysphere.cursor-mcp/oauth/callback';

/** The page /authorize for a client with this redirect. */
const authorizing = (name: string, redirect: string, more: Partial<State> = {}): State => ({
  name,
  env: async () => ({ OAUTH_REDIRECTS: `loopback ${HOSTED} ${OF_APP}` }),
  at: async (app) => (await register(app, [redirect])).page(),
  shows: (page) => page.getByRole('link', { name: 'Make a key for this connection' }).waitFor(),
  ...more,
});

/** The same for a client that is known by its document, which is in memory once the page was asked for. */
function authorizingByDocument(name: string, redirect: string): State {
  let vendor: DocumentServer | undefined;
  return authorizing(name, redirect, {
    async env() {
      vendor = serveDocuments();
      const id = `${vendor.origin}/client.json`;
      vendor.documents.set('/client.json', () => Response.json({ client_id: id, redirect_uris: [redirect] }));
      return { OAUTH_CLIENTS: id, OAUTH_REDIRECTS: `loopback ${HOSTED}` };
    },
    async at(app) {
      const page = (await register(app, [redirect])).page({ client_id: `${vendor?.origin}/client.json` });
      const distrust = trustAll();
      await fetch(page);
      distrust();
      await vendor?.stop();
      return page;
    },
  });
}

export const AUTHORIZE: readonly State[] = [
  authorizing('authorize', LOOPBACK),
  authorizing('authorize-hosted', HOSTED),
  authorizing('authorize-app', OF_APP),
  authorizingByDocument('authorize-document', HOSTED),
  authorizingByDocument('authorize-document-here', LOOPBACK),
  authorizing('authorize-refused', HOSTED, {
    async act(page) {
      await page.getByLabel('API key').fill(`sk_test_${'0'.repeat(64)}`);
      await page.keyboard.press('Enter');
    },
    shows: text('Invalid or expired API key'),
  }),
  authorizing('authorize-stopped', HOSTED, {
    at: async (app) => (await register(app, [HOSTED])).page({ client_id: 'x' }),
    shows: text('No key is handed over'),
  }),
  authorizing('authorize-without-page', HOSTED, {
    env: async () => ({ OAUTH_REDIRECTS: HOSTED, KEYS_PAGE: '0' }),
    shows: (page) => page.getByRole('button', { name: 'Hand over the key' }).waitFor(),
  }),
];

/** An app for the state, with keys of every kind if it has some. */
export async function appIn({ env, hasKeys }: State): Promise<TestApp> {
  const app = await createTestApp({ clock: testClock(Date.now() - 120 * DAY_MS), env: (await env?.()) ?? {} });
  const make = (name: string, days: number | undefined, more: object = {}) =>
    app.createKey('alice', { name, scopes: ['read'], ...(days !== undefined && { expiresInDays: days }), ...more });
  if (hasKeys) {
    const old = await make('old laptop', undefined);
    await make('partner integration', 90);
    app.clock.advance(60 * DAY_MS);
    const nightly = await make('nightly backup', 64);
    const ci = await make('CI pipeline', 180, {
      rateLimit: { requests: 15, window: '1m' },
      quota: { requests: 5000, period: 'day' },
    });
    app.clock.advance(57 * DAY_MS);
    for (const calls of CALLS_OF_DAYS) {
      for (let call = 0; call < calls; call += 1) await app.call('whoami', {}, { 'x-api-key': ci.key });
      app.clock.advance(DAY_MS);
    }
    await app.call('whoami', {}, { 'x-api-key': nightly.key });
    await app.call('revoke_api_key', { keyId: old.id }, await bearer(app, 'alice'));
    app.clock.advance(DAY_MS - 7_200_000);
    await make('status page', undefined);
    for (let call = 0; call < 4; call += 1) await app.call('whoami', {}, { 'x-api-key': ci.key });
    app.clock.advance(7_200_000);
  } else app.clock.advance(120 * DAY_MS);
  return app;
}

/** Opens the page in the state. */
export async function openIn(state: State, page: Page, app: TestApp): Promise<void> {
  const url = state.host === undefined ? app.url : app.url.replace('127.0.0.1', state.host);
  const { at } = state.who === undefined ? { at: '' } : await link(app, ...state.who);
  await page.goto((await state.at?.(app))?.href ?? `${url}/keys${at}`);
  await state.act?.(page, app);
  await state.shows(page);
  await page.mouse.move(0, 0);
}
