// The page /keys in a browser, with a watch on everything that it must never do or leave behind.

import { expect } from 'bun:test';
import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { misdeedsOf, takePage } from '../../support/browser.ts';
import { testClock } from '../../support/clock.ts';
import { createTestApp, type Env, type TestApp, type TestAppOptions } from '../../support/test-app.ts';

/** An app whose clock begins with the machine's time, which the browser has. */
export function appForBrowser(options: TestAppOptions = {}): Promise<TestApp> {
  return createTestApp({ clock: testClock(Date.now()), ...options });
}

/** An app whose people sign in at an issuer; the tokens of a lenient one have the time of the app. */
export async function appAt(issuer: { readonly url: string; nowMs?: () => number }, env: Env = {}): Promise<TestApp> {
  const own = { JWT_ISSUER: issuer.url, JWT_SECRET: '', KEYS_PAGE_CLIENT_ID: 'keys-page' };
  const app = await appForBrowser({ env: { ...own, ...env } });
  if ('nowMs' in issuer) issuer.nowMs = app.clock.nowMs;
  return app;
}

/** Where a link that signs in leads, as an option of `withKeysPage`. */
export const link = async (app: TestApp, sub = 'alice', claims = {}) => ({
  at: `#token=${await app.token(sub, claims)}`,
});

/** The same for an admin, in an app with the environment ADMINS. */
export const adminLink = (app: TestApp) => link(app, 'carol', { roles: 'keys-admin' });

/** Follows such a link in a page that is open. */
export const follow = (page: Page, { at }: { readonly at: string }) =>
  page.evaluate((hash) => location.assign(hash), at);

export async function pasteToken(page: Page, token: string): Promise<void> {
  await page.getByLabel('Or paste a user token').fill(token);
  await page.keyboard.press('Enter');
}

/** Waits until the status line says it. */
export const said = (page: Page, words: string | RegExp) => page.getByRole('status').getByText(words).waitFor();

/** Looks for a key or an owner by the search of the operators. */
export async function find(page: Page, meaning: string, text: string): Promise<void> {
  const field = page.getByRole('search').getByRole('textbox');
  await page.getByLabel('Search for').selectOption(meaning);
  await field.fill(text);
  await field.press('Enter');
}

/** Pastes into a field. */
export async function paste(page: Page, field: Locator, text: string): Promise<void> {
  await page.evaluate((copied) => navigator.clipboard.writeText(copied), text);
  await field.focus();
  await page.keyboard.press('Control+V');
}

/** Holds all requests for a path back from now on. Returns what lets them go. */
export async function holdBack(page: Page, path: string): Promise<() => void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  await page.route(path, async (route) => {
    await promise;
    await route.continue();
  });
  return resolve;
}

/** Until it is disposed of, the page waits for answers until `pass` is called with as many milliseconds. */
export async function holdTimeouts(page: Page) {
  const hold = () => {
    AbortSignal.timeout = (ms) => {
      const waiting = new AbortController();
      const late = new DOMException('signal timed out', 'TimeoutError');
      addEventListener('passed', (event) => (event as CustomEvent<number>).detail >= ms && waiting.abort(late));
      return waiting.signal;
    };
  };
  const script = await page.addInitScript(hold);
  await page.evaluate(hold);
  return {
    pass: (ms: number) => page.evaluate((detail) => dispatchEvent(new CustomEvent('passed', { detail })), ms),
    [Symbol.asyncDispose]: () => script.dispose(),
  };
}

/** What the page sends from now on, each as URL and body. */
export function sentBy(page: Page): readonly string[] {
  const sent: string[] = [];
  page.on('request', (request) => sent.push(`${request.url()} ${request.postData()}`));
  return sent;
}

export interface OpenPage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** The requests that were sent, as method and URL. */
  readonly requests: readonly string[];
}

export interface OpenOptions extends BrowserContextOptions {
  /** What stands behind the page's address. */
  readonly at?: string;
  /** Where people sign in: what happens there is not watched. */
  readonly issuer?: string;
  /** Whether the browser itself may complain on the console. */
  readonly quiet?: boolean;
}

/**
 * Runs `use` on the page of `app`; fails if a script got in, an error was logged, the content policy was violated, a
 * request went anywhere but to the page and the tools, or anything is left in the browser's storages.
 */
export async function withKeysPage(
  browser: Browser,
  app: Pick<TestApp, 'url'>,
  { at = '', issuer, quiet = false, ...options }: OpenOptions,
  use: (open: OpenPage) => Promise<void>,
): Promise<void> {
  const { origin } = new URL(app.url);
  await using taken = await takePage(browser, { viewport: { width: 1100, height: 1000 }, ...options });
  const { page } = taken;
  const context = page.context();
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin });
  const requests: string[] = [];
  const misdeeds = watch(page, requests, app.url, issuer);
  await page.goto(`${app.url}/keys${at}`);
  try {
    await use({ page, context, requests });
  } catch (error) {
    throw new Error(await shownAt(page, requests, misdeeds), { cause: error });
  }
  expect(misdeeds.filter((misdeed) => !quiet || !misdeed.startsWith('on the console'))).toEqual([]);
  expect(await leftBehind(page)).toEqual({ local: 0, session: 0, cookies: '', databases: 0, caches: 0 });
  expect(await context.cookies(origin)).toEqual([]);
}

/** Says what a test that fails has on its page, which is gone after it. */
async function shownAt(page: Page, requests: readonly string[], misdeeds: readonly string[]): Promise<string> {
  const seen = await page.locator('body').ariaSnapshot({ timeout: 1000 }).catch(String);
  return `the page shows:\n${seen.slice(0, 500)}\n…\n${seen.slice(-500)}\nits last requests: ${requests.slice(-5)}\n${misdeeds.slice(-5).join('\n')}`;
}

/** Everything that happens in the page or its frames and must not. */
function watch(page: Page, requests: string[], url: string, issuer: string | undefined): string[] {
  const misdeeds = misdeedsOf(page);
  const isAway = () => issuer !== undefined && page.url().startsWith(issuer);
  const mayAsk = [
    `${url}/keys`,
    `${url}/tools/`,
    `${url}/authorize`,
    `${url}/device/`,
    ...(issuer === undefined ? [] : [`${issuer}/`]),
  ];
  page.on('console', (message) => {
    // Chromium itself logs each refusal of a request.
    if (isAway() || (message.type() === 'error' && /status of [45]\d\d/.test(message.text()))) return;
    if (message.type() === 'error' || message.type() === 'warning') misdeeds.push(`on the console: ${message.text()}`);
  });
  page.on('request', (request) => {
    const asked = request.url();
    if (isAway() || request.redirectedFrom() !== null || /^(data|about):/.test(asked)) return;
    requests.push(`${request.method()} ${asked}`);
    if (!mayAsk.some((start) => asked.startsWith(start))) misdeeds.push(`a request: ${asked}`);
    if (request.headers().referer) misdeeds.push(`a referrer: ${asked}`);
  });
  return misdeeds;
}

const leftBehind = (page: Page) =>
  page.evaluate(async () => ({
    local: localStorage.length,
    session: sessionStorage.length,
    cookies: document.cookie,
    databases: (await indexedDB.databases()).length,
    caches: (await caches.keys()).length,
  }));

export interface ClientServer extends AsyncDisposable {
  /** Where a person is sent back to. */
  readonly callback: string;
  /** What it was asked for. */
  readonly asked: readonly { readonly url: URL; readonly referrer: string | null; readonly cookie: string | null }[];
}

/** A client's own server, which says "connected"; `respond` in place of that. */
export function clientServer(
  respond = (_url: URL) =>
    new Response('<title>connected</title>connected', { headers: { 'content-type': 'text/html' } }),
): ClientServer {
  const asked: ClientServer['asked'][number][] = [];
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch({ method, url, headers }) {
      const from = { referrer: headers.get('referer'), cookie: headers.get('cookie') };
      if (method === 'GET' && !url.endsWith('/favicon.ico')) asked.push({ url: new URL(url), ...from });
      return respond(new URL(url));
    },
  });
  return {
    callback: `http://127.0.0.1:${server.port}/callback`,
    asked,
    [Symbol.asyncDispose]: () => server.stop(true),
  };
}

/** All addresses of the session's history. */
export async function historyOf(page: Page): Promise<string[]> {
  const session = await page.context().newCDPSession(page);
  const { entries } = await session.send('Page.getNavigationHistory');
  return entries.map(({ url }) => url);
}
