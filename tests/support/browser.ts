// A real Chromium for tests, one for all files of a worker, if there is one. Without it those tests are skipped, with a
// line that says so; in CI (CI=true) its absence is a failure. And pages in it: opening a window takes longer than most
// tests do there, so one that a test has left as it was is for the next.

import { beforeAll, describe, setDefaultTimeout, test } from 'bun:test';
import { existsSync } from 'node:fs';
import { type Browser, type BrowserContextOptions, chromium, type Locator, type Page } from 'playwright-core';
import { atEnd, isWorker } from './at-end.ts';

/** The shell is Chromium without the windows of a desktop: the same pages take it half of the processor time. */
const PLACES = [
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];
/** A page, its frames and a browser, on a machine that may be busy. */
export const BROWSER_TEST_MS = 180_000;

/** One step of a test, or the start of a browser; far above what either takes, on a machine that may be busy. */
export const STEP_MS_MAX = 60_000;

export const chromiumPath = PLACES.find((place) => existsSync(place)) ?? null;

/**
 * A process for each sandboxed frame, as people's browsers have it, takes longer to start than most tests do; so does one
 * for each visit to a page that shares none with its opener, as /keys.
 */
const IN_ONE_PROCESS = ['--disable-site-isolation-trials', '--renderer-process-limit=1'];
/** The shell does so only if it is told to. */
const ISOLATING = ['--site-per-process', '--enable-features=IsolateSandboxedIframes'];

export const launchBrowser = (executablePath: string, more: readonly string[] = []): Promise<Browser> =>
  chromium.launch({
    executablePath,
    timeout: STEP_MS_MAX,
    args: [
      '--disable-gpu',
      '--disable-lcd-text',
      '--disable-quic',
      '--no-first-run',
      '--disable-component-update',
      '--disable-sync',
      ...more,
    ],
  });

let shared: Promise<Browser> | undefined;
let isolating: Promise<Browser> | undefined;
if (!isWorker) {
  // A worker's ends with it.
  atEnd(async () => {
    await (await shared)?.close();
    await (await isolating)?.close();
  });
}

/** Returns a browser where a sandboxed frame has a process, and so a memory, of its own. */
export const isolatingBrowser = (): Promise<Browser> => {
  isolating ??= launchBrowser(chromiumPath ?? '', ISOLATING);
  return isolating;
};

/** A `describe` whose tests share the browser. */
export function describeInBrowser(name: string, body: (browser: () => Browser) => void): void {
  setDefaultTimeout(BROWSER_TEST_MS);
  if (chromiumPath === null) {
    if (process.env.CI === 'true') {
      test(`${name}: Chromium is installed`, () => {
        throw new Error(`expected Chromium at one of ${PLACES.join(', ')}`);
      });
      return;
    }
    console.warn(`skipped, no Chromium on this machine: ${name}`);
  }
  describe.skipIf(chromiumPath === null)(name, () => {
    let launched: Browser | undefined;
    beforeAll(async () => {
      shared ??= launchBrowser(chromiumPath ?? '', IN_ONE_PROCESS);
      launched = await shared;
    }, BROWSER_TEST_MS);
    body(() => {
      if (launched === undefined) throw new Error('the browser starts with the first test');
      return launched;
    });
  });
}

/** Collects what no page or frame may do: open a dialog or a window, or throw. */
export function misdeedsOf(page: Page): string[] {
  const misdeeds: string[] = [];
  page.on('dialog', (dialog) => {
    misdeeds.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('pageerror', (error) => misdeeds.push(`an exception: ${error.message}`));
  page.on('popup', () => misdeeds.push('a new window'));
  return misdeeds;
}

/** Presses a button of a page, or of a frame in one. */
export const press = (where: Pick<Page, 'getByRole'>, name: string) =>
  where.getByRole('button', { name, exact: true }).click();

/** Presses the button of a row, such as "Revoke" of a key's name, and the same in the question that it asks. */
export async function confirm(where: Pick<Page, 'getByRole'>, what: string, name: string): Promise<void> {
  await press(where, `${what} ${name}`);
  const question = where.getByRole('group', { name: `${what} ${name}?` });
  await question.getByRole('button', { name: what, exact: true }).click();
}

export interface PageOptions extends BrowserContextOptions {
  /** Time stands still from the start, as after `stopClock`. */
  readonly isStopped?: boolean;
}

/** Empty pages of a browser that wait for the next test, by what their contexts were made with. */
const waitingIn = new WeakMap<Browser, Map<string, Page>>();
/** Time is taken over for good. */
const withOwnTime = new WeakSet<Page>();
/** What tests listen to. */
const EVENTS = ['console', 'dialog', 'pageerror', 'popup', 'request', 'response'] as const;

/** An empty page, until it is disposed of. */
export interface TakenPage extends AsyncDisposable {
  readonly page: Page;
}

export async function takePage(browser: Browser, options: PageOptions = {}): Promise<TakenPage> {
  const { isStopped = false, ...contextOptions } = options;
  const kind = JSON.stringify([isStopped, contextOptions]);
  const waiting = waitingIn.get(browser) ?? new Map<string, Page>();
  waitingIn.set(browser, waiting);
  const page = waiting.get(kind) ?? (await newPage(browser, contextOptions));
  waiting.delete(kind);
  if (isStopped) await stopClock(page);
  const size = JSON.stringify(page.viewportSize());
  async function giveBack(): Promise<void> {
    // Where a click goes is known to Chromium a moment after a window has another size. And a page whose time was taken
    // over keeps that: a frame of the next test may start one of its timers before, and never end it.
    const isAsTaken = withOwnTime.has(page) === isStopped && JSON.stringify(page.viewportSize()) === size;
    if (!isAsTaken) return page.context().close();
    try {
      await leaveEmpty(page);
    } catch {
      return page.context().close(); // what is wrong with it is the test's to say
    }
    await waiting.get(kind)?.context().close();
    waiting.set(kind, page);
  }
  return { page, [Symbol.asyncDispose]: giveBack };
}

async function newPage(browser: Browser, options: BrowserContextOptions): Promise<Page> {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(STEP_MS_MAX);
  return context.newPage();
}

/** As the next test expects it: with nothing of the last in it, nor in its history. */
async function leaveEmpty(page: Page): Promise<void> {
  const context = page.context();
  for (const event of EVENTS) {
    page.removeAllListeners(event);
    context.removeAllListeners(event);
  }
  for (const other of context.pages()) if (other !== page) await other.close();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  if (withOwnTime.has(page)) await page.clock.resume();
  await page.emulateMedia({ media: null, colorScheme: null, forcedColors: null });
  await page.mouse.move(0, 0);
  await page.goto('about:blank');
  const session = await context.newCDPSession(page);
  await session.send('Page.resetNavigationHistory');
  await session.detach();
  await context.clearCookies();
  await context.clearPermissions();
}

/** From now on the page's time moves by `page.clock.runFor` alone: what is looked for can't be over before the look. */
export async function stopClock(page: Page): Promise<void> {
  withOwnTime.add(page);
  const nowMs = Date.now();
  await page.clock.install({ time: nowMs - 60_000 }); // the clock goes until it is paused, and can't be paused in its past
  await page.clock.pauseAt(nowMs);
}

/**
 * Until the pointer gets to `element`, in whichever frame it is: Chromium loses clicks into a frame that is new, or has
 * moved, until it knows where that stands.
 */
export async function untilReached(page: Page, element: Locator): Promise<void> {
  let isOver = false;
  const seen = element
    .evaluate((at) => new Promise<void>((resolve) => at.addEventListener('mousemove', () => resolve(), { once: true })))
    .finally(() => {
      isOver = true;
    });
  for (let side = 3; !isOver; side = 7 - side) {
    await element.evaluate((at) => at.scrollIntoView({ block: 'center' })); // what stands above may still grow
    const box = await element.boundingBox();
    if (box) await page.mouse.move(box.x + side, box.y + 4); // in the element, and each time elsewhere
  }
  await seen;
  await page.mouse.move(0, 0);
}
