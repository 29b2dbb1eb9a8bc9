// A real Chromium for tests, one for all files of a worker, if there is one. Without it those tests are skipped, with a line that says so; in CI
// (CI=true) its absence is a failure.

import { beforeAll, describe, setDefaultTimeout, test } from 'bun:test';
import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';
import { atEnd, isWorker } from './at-end.ts';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const LAUNCH_MS_MAX = 30_000;
/** A page, its frames and a browser, on a machine that may be busy. */
export const BROWSER_TEST_MS = 180_000;

export const chromiumPath = PLACES.find((place) => existsSync(place)) ?? null;

export const launchBrowser = (executablePath: string): Promise<Browser> =>
  chromium.launch({
    executablePath,
    args: [
      '--disable-gpu',
      '--disable-lcd-text',
      '--disable-quic',
      '--no-first-run',
      '--disable-component-update',
      '--disable-sync',
    ],
  });

let shared: Promise<Browser> | undefined;
if (!isWorker) atEnd(async () => (await shared)?.close()); // a worker's ends with it

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
      shared ??= launchBrowser(chromiumPath ?? '');
      launched = await shared;
    }, LAUNCH_MS_MAX);
    body(() => {
      if (launched === undefined) throw new Error('the browser starts with the first test');
      return launched;
    });
  });
}
