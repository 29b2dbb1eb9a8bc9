// The pages /keys and /authorize for people who see little, in their other states.

import { test } from 'bun:test';
import { describeInBrowser } from '../../support/browser.ts';
import { expectNoFindings, SOME } from './axe.ts';
import { AUTHORIZE, STATES } from './states.ts';

describeInBrowser('axe-core finds nothing', (browser) => {
  test.each(
    [...STATES, ...AUTHORIZE].filter(({ name }) => !SOME.includes(name)).map((state) => [state.name, state] as const),
  )('in the state %s, light and dark, and nothing is wider than 320 px', (_, state) =>
    expectNoFindings(browser(), state),
  );
});
