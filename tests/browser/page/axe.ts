// Looks at a page in one of its states with all rules of axe-core, light and dark, at 320 px.

import { expect } from 'bun:test';
import type { Browser } from 'playwright-core';
import { takePage } from '../../support/browser.ts';
import { findings } from '../axe.ts';
import { appIn, openIn, type State } from './states.ts';

/** Looked at whenever tests run; the others with `bun run test:all`. */
export const SOME = ['sign-in', 'keys', 'form-limits', 'asked-for', 'authorize', 'authorize-refused'];

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
