// The page /keys for people who see little, in each of its states.

import { test } from 'bun:test';
import { describeInBrowser } from '../../support/browser.ts';
import { expectNoFindings, FOUR } from './axe.ts';
import { STATES } from './states.ts';

describeInBrowser('axe-core finds nothing', (browser) => {
  test.each(STATES.filter(({ name }) => !FOUR.includes(name)).map((state) => [state.name, state] as const))(
    'in the state %s, light and dark, and nothing is wider than 320 px',
    (_, state) => expectNoFindings(browser(), state),
  );
});
