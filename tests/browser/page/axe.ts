// Looks at the page /keys in one of its states with all rules of axe-core, light and dark, at 320 px.

import { expect } from 'bun:test';
import { readFileSync } from 'node:fs';
import type { AxeResults } from 'axe-core';
import type { Browser, Page } from 'playwright-core';
import { takePage } from '../../support/browser.ts';
import { appIn, openIn, type State } from './states.ts';

declare const axe: { run(options: object): Promise<AxeResults> };
const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

/** Looked at whenever tests run; the others with `bun run test:all`. */
export const FOUR = ['sign-in', 'keys', 'form-limits', 'asked-for'];

type Scheme = 'light' | 'dark';

/** Everything that axe finds. What is light is looked at first; dark, only the colours differ. */
async function findings(page: Page, scheme: Scheme): Promise<string[]> {
  if (scheme === 'light') await page.evaluate(AXE);
  const { violations, passes } = await page.evaluate(
    (rules) => axe.run({ resultTypes: ['violations', 'passes'], ...rules }),
    scheme === 'dark' ? { runOnly: ['color-contrast'] } : {},
  );
  expect(passes.length).toBeGreaterThan(scheme === 'dark' ? 0 : 5); // axe did look
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
}

export async function expectNoFindings(browser: Browser, state: State): Promise<void> {
  await using app = await appIn(state);
  const options = { viewport: { width: 320, height: 900 }, reducedMotion: 'reduce' } as const;
  await using taken = await takePage(browser, options);
  const { page } = taken;
  await openIn(state, page, app);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await findings(page, colorScheme)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  }
}
