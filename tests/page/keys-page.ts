// The page /keys in a browser, with a watch on everything that it must never do or leave behind.

import { expect, setDefaultTimeout } from 'bun:test';
import type { Browser, BrowserContext, BrowserContextOptions, FrameLocator, Page } from 'playwright-core';
import { testClock } from '../support/clock.ts';
import { createTestApp, type TestApp, type TestAppOptions } from '../support/test-app.ts';

/** A page, its frames and a browser, on a machine that may be busy. */
const BROWSER_TEST_MS = 180_000;
const STEP_MS_MAX = 15_000;

/** An app whose clock begins with the machine's time, which the browser has. */
export function appForBrowser(options: TestAppOptions = {}): Promise<TestApp> {
  return createTestApp({ clock: testClock(Date.now()), ...options });
}

export interface OpenPage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** What a person sees of the widgets. */
  readonly list: FrameLocator;
  readonly created: FrameLocator;
  /** The requests that were sent, as method and URL. */
  readonly requests: readonly string[];
}

export interface OpenOptions extends BrowserContextOptions {
  /** What stands behind the page's address. */
  readonly at?: string;
  /** Beside the page and its tools, the beginnings of URLs that it may ask for. */
  readonly mayAsk?: readonly string[];
}

/**
 * Runs `use` on the page of `app`; fails if a script got in, an error was logged, the content policy was violated, a
 * request went anywhere but to the page and the tools, or anything is left in the browser's storages.
 */
export async function withKeysPage(
  browser: Browser,
  app: Pick<TestApp, 'url'>,
  { at = '', mayAsk = [], ...options }: OpenOptions,
  use: (open: OpenPage) => Promise<void>,
): Promise<void> {
  setDefaultTimeout(BROWSER_TEST_MS);
  const context = await browser.newContext({ viewport: { width: 1100, height: 1000 }, ...options });
  context.setDefaultTimeout(STEP_MS_MAX);
  const { origin } = new URL(app.url);
  try {
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin });
    const page = await context.newPage();
    const requests: string[] = [];
    const misdeeds = watch(page, requests, [`${app.url}/keys`, `${app.url}/tools/`, ...mayAsk]);
    await page.goto(`${app.url}/keys${at}`);
    await use({
      page,
      context,
      list: page.frameLocator('iframe[name=listed]'),
      created: page.frameLocator('iframe[name=created]'),
      requests,
    });
    expect(misdeeds).toEqual([]);
    expect(await leftBehind(page)).toEqual({ local: 0, session: 0, cookies: '', databases: 0, caches: 0 });
    expect(await context.cookies(origin)).toEqual([]);
  } finally {
    await context.close();
  }
}

/** Everything that happens in the page or its frames and must not. */
function watch(page: Page, requests: string[], mayAsk: readonly string[]): string[] {
  const misdeeds: string[] = [];
  page.on('dialog', (dialog) => {
    misdeeds.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('console', (message) => {
    const { url } = message.location();
    // Chromium itself logs each refusal of the server.
    if (message.type() === 'error' && /\/tools\/\w+$/.test(url) && /status of [45]/.test(message.text())) return;
    if (message.type() === 'error' || message.type() === 'warning') misdeeds.push(`on the console: ${message.text()}`);
  });
  page.on('pageerror', (error) => misdeeds.push(`an exception: ${error.message}`));
  page.on('popup', () => misdeeds.push('a new window'));
  page.on('request', (request) => {
    const url = request.url();
    if (/^(data|about):/.test(url)) return;
    requests.push(`${request.method()} ${url}`);
    if (!mayAsk.some((start) => url.startsWith(start))) misdeeds.push(`a request: ${url}`);
    if (request.headers().referer) misdeeds.push(`a referrer: ${url}`);
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

/** All addresses of the session's history. */
export async function historyOf(page: Page): Promise<string[]> {
  const session = await page.context().newCDPSession(page);
  const { entries } = await session.send('Page.getNavigationHistory');
  return entries.map(({ url }) => url);
}
