// The pages /keys and /authorize for people who see little, in each of their states.

import { expect, test } from 'bun:test';
import { describeInBrowser, takePage } from '../../support/browser.ts';
import { rows } from '../../support/everything.ts';
import { findings } from '../axe.ts';
import { AUTHORIZE, appIn, openIn, STATES } from './states.ts';

/** Those that `bun run test` looks at, too. */
const USUAL = ['sign-in', 'keys', 'form-limits', 'asked-for', 'authorize', 'authorize-refused'];
const ALL = [...STATES, ...AUTHORIZE].sort((a, b) => USUAL.indexOf(b.name) - USUAL.indexOf(a.name));

describeInBrowser('axe-core finds nothing', (browser) => {
  for (const state of rows(ALL, USUAL.length)) {
    test(`in the state ${state.name}, light and dark, and nothing is wider than 320 px`, async () => {
      await using app = await appIn(state);
      const options = { viewport: { width: 320, height: 900 }, reducedMotion: 'reduce' } as const;
      await using taken = await takePage(browser(), options);
      const { page } = taken;
      await openIn(state, page, app);
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        expect(await findings(page, colorScheme)).toEqual([]);
        expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
      }
    });
  }
});
