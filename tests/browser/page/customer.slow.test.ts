// A customer's whole way on the page /keys beside their app, from the app's sign-in to the end of a key, with the keyboard
// alone.

import { expect, test } from 'bun:test';
import type { Locator, Page } from 'playwright-core';
import { describeInBrowser } from '../../support/browser.ts';
import { findings } from '../axe.ts';
import { beside } from './customer-app.ts';
import { historyOf, type OpenPage, withKeysPage } from './keys-page.ts';

const STOPS_MAX = 60;

/**
 * Hands that press Tab until they are there, and fail at each stop where one doesn't see where the focus is. Each leaves the
 * focus where the page puts it.
 */
function handsOn(page: Page) {
  const { keyboard } = page;
  async function reach(what: Locator) {
    await what.waitFor();
    for (let stops = 0; stops < STOPS_MAX; stops += 1) {
      if (await what.evaluate((element) => element === document.activeElement)) return;
      await keyboard.press('Tab');
      await expectSeen(page);
    }
    throw new Error(`not reached with Tab: ${what}`);
  }
  return {
    async press(what: Locator) {
      await reach(what);
      await keyboard.press('Enter');
    },
    async toggle(what: Locator) {
      await reach(what);
      await keyboard.press('Space');
    },
    async type(into: Locator, text: string) {
      await reach(into);
      await keyboard.press('Control+A');
      await keyboard.type(text);
    },
    async paste(into: Locator) {
      await reach(into);
      await keyboard.press('Control+V');
    },
  };
}

/** Fails if what has the focus shows it by nothing, or stands out of sight. */
async function expectSeen(page: Page): Promise<void> {
  const unseen = await page.evaluate(() => {
    const { activeElement: element } = document;
    if (element === null || element === document.body) return null; // behind the last stop comes the first
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    const { top, bottom } = element.getBoundingClientRect();
    const hasOutline = outlineStyle !== 'none' && Number.parseFloat(outlineWidth) > 0;
    return hasOutline && top >= 0 && bottom <= innerHeight ? null : element.outerHTML;
  });
  expect(unseen).toBeNull();
}

/** Waits until the element of this name has the focus. */
async function expectFocus(page: Page, name: string): Promise<void> {
  const isThere = (wanted: string) => {
    const { activeElement: element } = document;
    const found = element?.ariaLabel || (element instanceof HTMLInputElement && element.name) || element?.textContent;
    return found === wanted;
  };
  await page.waitForFunction(isThere, name).catch(async () => {
    throw new Error(
      `the focus is not on ${name}, but on ${await page.evaluate(() => document.activeElement?.outerHTML.slice(0, 200))}`,
    );
  });
}

async function expectNoFindings(page: Page): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    expect(await findings(page, colorScheme)).toEqual([]);
  }
  await page.emulateMedia({ colorScheme: 'light' });
}

type There = Awaited<ReturnType<typeof beside>>;

/** Fails if the key is in an address, in the session's history, or in the log. */
async function expectNowhere(key: string, { app }: There, { page, requests }: OpenPage): Promise<void> {
  for (const place of [...requests, ...(await historyOf(page)), await app.logText()]) expect(place).not.toContain(key);
}

/** Goes the whole way, with a look at each state; returns the key. */
async function goThrough({ app }: There, { page }: OpenPage): Promise<string> {
  const hands = handsOn(page);
  const look = () => expectNoFindings(page);
  const button = (name: string | RegExp) => page.getByRole('button', { name, exact: true });
  const checkbox = (name: string) => page.getByRole('checkbox', { name, exact: true });

  await hands.press(button(/^Sign in at/));
  await hands.press(page.getByRole('link', { name: 'alice' }));
  await page.getByText('Signed in as alice').waitFor();
  await expectFocus(page, 'name');
  await look();
  await hands.type(page.getByRole('textbox', { name: 'Name' }), 'in my .env');
  await hands.toggle(checkbox('read'));
  await hands.type(page.getByRole('textbox', { name: 'Other scopes' }), 'write');
  await hands.press(button('Create key'));
  await expectFocus(page, 'New key of in my .env');
  await hands.press(page.getByRole('group', { name: 'API key' }).getByRole('button', { name: 'Copy' }));
  await page.getByText('Copied. Paste it where it is kept safe.').waitFor();
  await look();
  const key = await page.evaluate(() => navigator.clipboard.readText());
  await hands.press(button('I have saved it'));
  await expectFocus(page, 'Create a key');

  expect((await app.useKey(key)).status).toBe(200);
  await page.getByText('Not used yet').waitFor();
  await hands.press(button('Refresh'));
  await page.getByText('Last used').waitFor();
  await expectFocus(page, 'Refresh');

  await hands.press(button('More about in my .env'));
  await page.getByText(/^Made by alice/).waitFor();
  await expectFocus(page, 'More about in my .env');
  await hands.press(button('Rename: in my .env'));
  await expectFocus(page, 'Name');
  await look();
  await hands.type(page.getByRole('textbox', { name: 'Name' }), 'of the shop');
  await page.keyboard.press('Enter');
  await expectFocus(page, 'Rename: of the shop');
  await page.getByText(/^Renamed by alice/).waitFor();

  await hands.press(button('Fewer scopes: of the shop'));
  await expectFocus(page, 'scope');
  await look();
  await hands.toggle(checkbox('write'));
  await hands.press(button('Save'));
  await expectFocus(page, 'Fewer scopes: of the shop');
  await page.getByText(/^Scopes changed by alice/).waitFor();
  expect((await app.useKey(key)).body.key.scopes).toEqual(['read']);
  await look();

  const said = page.getByRole('list', { name: 'History' }).getByRole('listitem');
  expect((await said.allTextContents()).map((text) => text.split(',')[0])).toEqual([
    'Scopes changed by alice',
    'Renamed by alice',
    'Made by alice',
  ]);
  await hands.press(button('More about of the shop')); // closed again
  await expectFocus(page, 'More about of the shop');
  await hands.paste(page.getByRole('searchbox'));
  await page.getByText('It is this one.').waitFor();
  await expectFocus(page, 'More about of the shop');
  await look();

  await hands.press(button('Revoke of the shop'));
  await expectFocus(page, 'Cancel');
  await look();
  await hands.press(page.getByRole('group', { name: 'Revoke of the shop?' }).getByRole('button', { name: 'Revoke' }));
  await page.getByText('API key revoked successfully').waitFor();
  await expectFocus(page, 'Delete of the shop');
  await look();
  return key;
}

describeInBrowser(
  'a customer makes, uses, changes, finds and ends a key beside their app with the keyboard alone',
  (browser) => {
    test('the focus is always seen and never lost, axe finds nothing on the way, and the key is left nowhere', async () => {
      await using there = await beside('bun');
      const { app, customers } = there;
      await withKeysPage(browser(), app, { issuer: customers.url }, async (open) => {
        const key = await goThrough(there, open);
        await expectNowhere(key, there, open);
        expect((await app.useKey(key)).status).toBe(401);
        await open.context.clearCookies();
      });
    });
  },
);
