// The pages /keys and /authorize for people who see little, in each of their states.

import { expect, test } from 'bun:test';
import type { Browser, Page } from 'playwright-core';
import { describeInBrowser, press, takePage } from '../../support/browser.ts';
import { rows } from '../../support/everything.ts';
import { findings } from '../axe.ts';
import { appForBrowser, link, withKeysPage } from './keys-page.ts';
import { AUTHORIZE, appIn, openIn, STATES } from './states.ts';

/** Those that `bun run test` looks at, too. */
const USUAL = ['sign-in', 'keys', 'form-limits', 'asked-for', 'authorize'];
const ALL = [...STATES, ...AUTHORIZE].sort((a, b) => USUAL.indexOf(b.name) - USUAL.indexOf(a.name));

function stateOf(wanted: string) {
  const state = ALL.find(({ name }) => name === wanted);
  if (state === undefined) throw new Error(`there is a state ${wanted}`);
  return state;
}

/** Opens the page that is in this state, in a browser with these options. */
async function withState(
  browser: Browser,
  name: string,
  options: Parameters<typeof takePage>[1],
  look: (page: Page) => Promise<void>,
): Promise<void> {
  const state = stateOf(name);
  await using app = await appIn(state);
  await using taken = await takePage(browser, options);
  await openIn(state, taken.page, app);
  await look(taken.page);
}

describeInBrowser('axe-core finds nothing', (browser) => {
  for (const { name } of rows(ALL, USUAL.length)) {
    test(`in the state ${name}, light and dark, and nothing is wider than 320 px`, async () => {
      await withState(browser(), name, { viewport: { width: 320, height: 900 } }, async (page) => {
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme });
          expect(await findings(page, colorScheme)).toEqual([]);
          expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
        }
      });
    });
  }
});

describeInBrowser('two keys', (browser) => {
  test('that are renamed at once have forms that screen readers tell apart', async () => {
    await using app = await appForBrowser();
    for (const name of ['CI', 'billing']) await app.createKey('alice', { name });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      for (const name of ['CI', 'billing']) {
        await press(page, `More about ${name}`);
        await press(page, `Rename: ${name}`);
      }
      await page
        .getByRole('form', { name: 'Rename: billing' })
        .getByRole('textbox')
        .and(page.locator(':focus'))
        .waitFor();
      expect(await findings(page, 'light')).toEqual([]);
    });
  });
});

describeInBrowser('in forced colours', (browser) => {
  test('the bar of a quota is seen', async () => {
    await withState(browser(), 'plan', { forcedColors: 'active', reducedMotion: 'reduce' }, async (page) => {
      const bar = page.getByRole('progressbar');
      const before = await bar.screenshot();
      await bar.evaluate((element: HTMLProgressElement) => {
        element.value = 40;
      });
      expect(before.equals(await bar.screenshot())).toBe(false);
    });
  });
});

describeInBrowser('on a phone', (browser) => {
  const PHONE = { isMobile: true, hasTouch: true, viewport: { width: 390, height: 844 } };
  const onPhone = (name: string, look: (page: Page) => Promise<void>) => withState(browser(), name, PHONE, look);

  test.each(['form-limits', 'owner-plan'])('no field zooms the page in the state %s', async (name) => {
    await onPhone(name, async (page) => {
      const small = await page.evaluate(() =>
        Array.from(document.querySelectorAll<HTMLElement>('input, select, textarea'))
          .filter((field) => Number.parseFloat(getComputedStyle(field).fontSize) < 16) // iOS zooms into it, and stays there
          .map(({ outerHTML }) => outerHTML),
      );
      expect(small).toEqual([]);
    });
  });

  test.each(['connect', 'narrowed'])('a scope is as large as a fingertip in the state %s', async (name) => {
    await onPhone(name, async (page) => {
      const heights = await page
        .getByRole('checkbox')
        .evaluateAll((boxes) => boxes.map((box) => box.closest('label')?.getBoundingClientRect().height ?? 0));
      expect(Math.min(...heights)).toBeGreaterThanOrEqual(40);
    });
  });

  test('taps on two scopes count, though the browser takes them for a double tap', async () => {
    await onPhone('connect', async (page) => {
      const session = await page.context().newCDPSession(page);
      const scopes = await page.getByRole('checkbox').all();
      const before = await Promise.all(scopes.map((scope) => scope.isChecked()));
      for (const [index, scope] of scopes.entries()) {
        const label = await scope.locator('xpath=following-sibling::bdi').boundingBox();
        if (label === null) throw new Error('each scope has a label');
        const at = { x: label.x + 2, y: label.y + 2, button: 'left', clickCount: index + 1 } as const;
        for (const type of ['mousePressed', 'mouseReleased'] as const) {
          await session.send('Input.dispatchMouseEvent', { type, ...at });
        }
      }
      expect(await Promise.all(scopes.map((scope) => scope.isChecked()))).toEqual(before.map((isTicked) => !isTicked));
    });
  });

  test('a double tap in an opened row asks, and does not answer what it has asked', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'CI' });
    await withKeysPage(browser(), app, { ...(await link(app)), ...PHONE }, async ({ page, requests }) => {
      await press(page, 'More about CI');
      await page.getByText(/^Made by alice/).waitFor();
      const ends = page.getByRole('button', { name: 'Delete CI' });
      const answer = page.getByRole('group', { name: 'Delete CI?' }).getByRole('button', { name: 'Delete' });
      /** A point at which the answer comes to where the button was. */
      async function pointOfBoth() {
        const first = await ends.boundingBox();
        await ends.click();
        const second = await answer.boundingBox();
        await press(page, 'Cancel');
        if (first === null || second === null) throw new Error('both are shown');
        const [x, right] = [Math.max(first.x, second.x), Math.min(first.x + first.width, second.x + second.width)];
        const [y, bottom] = [Math.max(first.y, second.y), Math.min(first.y + first.height, second.y + second.height)];
        return x + 4 < right && y + 4 < bottom ? { x: (x + right) / 2, y: (y + bottom) / 2 } : null;
      }
      let point = await pointOfBoth();
      for (let width = 300; width <= 430 && point === null; width += 10) {
        await page.setViewportSize({ width, height: 844 }); // how the buttons are laid out depends on the font, too
        point = await pointOfBoth();
      }
      if (point === null) throw new Error('nothing moves to where a finger was, at any width');
      await page.mouse.dblclick(point.x, point.y);
      await answer.waitFor();
      await press(page, 'Cancel');
      expect(requests.filter((request) => request.includes('delete_api_key'))).toEqual([]);
    });
  });
});
