// The plainest possible host: a page with one widget in a sandboxed frame, which sends only what a test has it send.

import { expect } from 'bun:test';
import type { Browser, Frame, Page } from 'playwright-core';
import { type PageOptions, takePage, untilReached } from '../../support/browser.ts';
import { widgetText } from './lab/lab.ts';
import { watch } from './preview-page.ts';

export interface BareHost {
  readonly page: Page;
  readonly frame: Frame;
  /** Messages of the widget, in order. */
  heard(): Promise<Record<string, unknown>[]>;
  /** Posts each message to the widget as it is. */
  post(...messages: unknown[]): Promise<void>;
  /** Answers `ui/initialize`. */
  initialize(result?: object): Promise<void>;
}

export const INITIALIZED = { protocolVersion: '2026-01-26', hostInfo: {}, hostCapabilities: {}, hostContext: {} };

/** The message that brings a widget what its tool returned. */
export const toolResult = (structuredContent: unknown, rest: object = {}) => ({
  jsonrpc: '2.0',
  method: 'ui/notifications/tool-result',
  params: { content: [], structuredContent, ...rest },
});

/** What list_api_keys returns: an active key of each name, none of which ever expires. */
export const listOf = (...names: unknown[]) => ({
  keys: names.map((name, index) => ({ id: `${index}`, name, scopes: [], active: true, createdAt: 0, expiresAt: null })),
});

/** The response to the widget's next tool call, to be posted. */
export async function responseTo({ page }: BareHost, result: object) {
  const call = await page.waitForFunction(() => {
    const { heard } = globalThis as unknown as { heard: { id?: number; method?: string; taken?: true }[] };
    const next = heard.find(({ method, taken }) => method === 'tools/call' && !taken);
    return next && Object.assign(next, { taken: true });
  });
  return { jsonrpc: '2.0', id: (await call.jsonValue())?.id, result };
}

/** Runs `use` on a widget in such a page; fails if anything happened that must not (see `watch`). */
export async function withBareHost(
  browser: Browser,
  widget: string,
  use: (host: BareHost) => Promise<void>,
  options: PageOptions = {},
): Promise<void> {
  const html = await widgetText(widget);
  await using taken = await takePage(browser, options);
  const { page } = taken;
  const misdeeds = watch(page);
  await page.setContent(
    '<iframe sandbox="allow-scripts" style="width: 380px; height: 600px" srcdoc="<p>"></iframe><iframe sandbox="allow-scripts"></iframe>',
  );
  const frame = await (await page.waitForSelector('iframe')).contentFrame();
  if (frame === null) throw new Error('the widget has no window');
  await frame.locator('p').waitFor({ state: 'attached' }); // its process is there, and has the clock, before the widget
  await page.evaluate((srcdoc) => {
    const heard: unknown[] = [];
    Object.assign(globalThis, { heard });
    const frame = document.querySelector('iframe');
    window.addEventListener('message', ({ source, data }) => {
      if (source === frame?.contentWindow) heard.push(data);
    });
    if (frame) frame.srcdoc = srcdoc;
  }, html);
  const heard = () => page.evaluate(() => (globalThis as unknown as { heard: Record<string, unknown>[] }).heard);
  await page.waitForFunction(() => (globalThis as unknown as { heard: unknown[] }).heard.length > 0);
  await untilReached(page, frame.locator('html'));
  const post = (...messages: unknown[]) =>
    page.evaluate(async (all) => {
      for (const message of all) document.querySelector('iframe')?.contentWindow?.postMessage(message, '*');
    }, messages);
  await use({
    page,
    frame,
    heard,
    post,
    initialize: (result = INITIALIZED) => post({ jsonrpc: '2.0', id: 1, result }),
  });
  expect(misdeeds).toEqual([]);
}

/** The same with a widget that may call tools, once it shows what its tool returned. */
export const withShown = (
  browser: Browser,
  widget: string,
  shown: unknown,
  use: (host: BareHost) => Promise<void>,
  { hostContext = {}, ...options }: PageOptions & { readonly hostContext?: object } = {},
): Promise<void> =>
  withBareHost(
    browser,
    widget,
    async (host) => {
      await host.initialize({ hostCapabilities: { serverTools: {} }, hostContext });
      await host.post(toolResult(shown));
      await host.frame.locator('main').waitFor();
      await use(host);
    },
    options,
  );
