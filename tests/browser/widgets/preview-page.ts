// The lab in a browser, with a trap for everything a widget must never do.

import { afterAll, beforeAll, expect } from 'bun:test';
import type { Browser, Frame, FrameLocator, Page } from 'playwright-core';
import { misdeedsOf, takePage } from '../../support/browser.ts';
import { serveLab } from './lab/lab.ts';

export interface Preview {
  readonly page: Page;
  /** What a person sees of the widgets. */
  readonly created: FrameLocator;
  readonly list: FrameLocator;
  /** The window of a widget, to evaluate in. */
  frame(widget: 'api-key-created' | 'api-keys-list'): Promise<Frame>;
}

/** The rows of the list that a person sees. */
export const rows = (list: FrameLocator | Frame | Page) => list.getByRole('list', { name: 'Keys' }).locator('> li');
/** The row of the key with this name. */
export const rowOf = (list: FrameLocator | Frame | Page, name: string) =>
  rows(list).filter({ has: list.getByText(name, { exact: true }) });
/** The value of a term that a widget tells of a key. */
export const factOf = (widget: FrameLocator | Frame | Page, term: string) =>
  widget.locator('dt', { hasText: term }).locator('+ dd');
/** What has the focus, and the style of its ring. */
export const focused = (frame: Frame) =>
  frame.evaluate(() => {
    const at = document.activeElement as HTMLInputElement;
    return [at.ariaLabel || at.textContent || at.value, getComputedStyle(at).outlineStyle];
  });
/** What stands in a box of a new key. */
export const codeOf = (widget: FrameLocator | Frame | Page, name: string) =>
  widget.getByRole('group', { name, exact: true }).locator('code');

/**
 * Runs `use` on the lab's page for `query`; fails if a script got in, anything was fetched, or an error was logged.
 */
export type WithPreview = (query: string, use: (preview: Preview) => Promise<void>) => Promise<void>;

export function withPreview(browser: () => Browser | Promise<Browser>): WithPreview {
  let lab: ReturnType<typeof serveLab>;
  beforeAll(() => {
    lab = serveLab();
  });
  afterAll(() => lab.stop());

  return async (query, use) => {
    const url = `${lab.url}/?${query}`;
    await using taken = await takePage(await browser(), { viewport: { width: 1440, height: 900 } });
    const { page } = taken;
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: new URL(url).origin });
    const misdeeds = watch(page, url);
    await page.goto(url);
    await use({
      page,
      created: page.frameLocator('iframe[name=api-key-created]'),
      list: page.frameLocator('iframe[name=api-keys-list]'),
      frame: async (widget) => {
        const frame = await (await page.waitForSelector(`iframe[name=${widget}]`)).contentFrame();
        if (frame === null) throw new Error(`${widget} has no window`);
        return frame;
      },
    });
    expect(misdeeds).toEqual([]);
  };
}

/** Everything that happens in the page or its frames and must not. */
export function watch(page: Page, ...allowedUrls: string[]): string[] {
  const misdeeds = misdeedsOf(page);
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') misdeeds.push(`on the console: ${message.text()}`);
  });
  page.on('request', (request) => {
    const url = request.url();
    if (!allowedUrls.includes(url) && !url.startsWith('data:') && !url.startsWith('about:')) {
      misdeeds.push(`a request: ${url}`);
    }
  });
  return misdeeds;
}
