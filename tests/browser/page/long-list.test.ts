// A list of keys that comes in pages: what is found in those that aren't shown yet, and what stays when the first comes again.

import { expect, test } from 'bun:test';
import type { Locator, Page } from 'playwright-core';
import { describeInBrowser, takePage } from '../../support/browser.ts';
import type { TestApp } from '../../support/test-app.ts';
import { appForBrowser, holdBack, holdTimeouts, link, paste, said, sentBy, withKeysPage } from './keys-page.ts';

const KEYS = 60;
/** So many bytes in each key that one page doesn't take them all. */
const SCOPES = Array.from({ length: 20 }, (_, index) => `${index}:${'x'.repeat(90)}`);

/** Makes the keys, and returns the oldest, which is on the last page. */
async function oldestOf(app: TestApp) {
  const oldest = await app.createKey('alice', { name: 'the oldest', scopes: SCOPES });
  for (let index = 1; index < KEYS; index++) await app.createKey('alice', { name: `key ${index}`, scopes: SCOPES });
  return oldest;
}

const LISTS = '**/tools/list_api_keys';
/** By keyboard: rows get their height when they are scrolled to, which moves what is below from under a pointer. */
const press = (button: Locator) => button.press('Enter');
const alerted = (page: Page, words: string) => page.getByRole('alert').getByText(words).waitFor();

describeInBrowser('a list in pages', (browser) => {
  test('finds a key that is pasted on each of them, also one made meanwhile, and sends none; a lost page is no answer', async () => {
    await using app = await appForBrowser();
    const oldest = await oldestOf(app);
    await withKeysPage(browser(), app, { ...(await link(app)), quiet: true }, async ({ page }) => {
      await page.getByText(/^The newest \d+ keys$/).waitFor();
      const sent = sentBy(page);
      const search = page.getByRole('searchbox');
      await page.route(LISTS, (route) =>
        /cursor/.test(route.request().postData() ?? '') ? route.abort() : route.continue(),
      );
      await search.fill(oldest.key);
      await alerted(page, 'Not found yet');
      await page.route(LISTS, (route) => route.abort());
      await search.fill(oldest.key);
      await alerted(page, 'Not found yet');
      await page.unroute(LISTS);

      await search.fill(`sk_test_${'0'.repeat(64)}`);
      await said(page, 'None of your keys: deleted, another person’s, or one that a key has made.');
      expect(await search.evaluate((field) => field === document.activeElement)).toBe(true);
      const another = await app.createKey('alice', { name: 'made meanwhile' });
      for (const [{ key }, name] of [
        [another, 'made meanwhile'],
        [oldest, 'the oldest'],
      ] as const) {
        await search.fill(key);
        await said(page, /^It is “.+”, active\./);
        await page.getByRole('button', { name: `More about ${name}`, expanded: true }).waitFor();
      }
      const row = page.getByRole('listitem').filter({ hasText: 'the oldest' });
      await row.getByText(oldest.id, { exact: true }).waitFor();
      const events = row.getByRole('list', { name: 'History' }).getByRole('listitem');
      await events.first().waitFor();
      expect(await events.allTextContents()).toEqual([expect.stringMatching(/^Made by alice, .*, from 127\.0\.0\.1$/)]);
      expect(await search.inputValue()).toBe('');
      expect(sent.filter((text) => text.includes(oldest.key))).toEqual([]);
    });
    expect(await app.logText()).not.toContain(oldest.key);
  });

  test('draws the rows of a further page alone: those that are there are not described anew', async () => {
    await using app = await appForBrowser();
    await oldestOf(app);
    const { at } = await link(app);
    await using taken = await takePage(browser(), { isStopped: true }); // all are drawn anew each minute
    const { page } = taken;
    await page.goto(`${app.url}/keys${at}`);
    await page.getByText(/^The newest \d+ keys$/).waitFor();
    const rows = page.getByRole('list', { name: 'Keys' }).locator('> li');
    const shown = await rows.count();
    await page.evaluate(() => {
      const { toISOString } = Date.prototype;
      document.body.title = '0';
      Date.prototype.toISOString = function () {
        document.body.title = String(Number(document.body.title) + 1); // each row has the time of its creation
        return toISOString.call(this);
      };
    });
    await press(page.getByRole('button', { name: 'Show more' }));
    await page.getByText(`${KEYS} keys`, { exact: true }).waitFor();
    expect(await page.evaluate(() => Number(document.body.title))).toBe(KEYS - shown);
  });

  test('finds by a pasted id, or a name without spaces, what is on a later page', async () => {
    await using app = await appForBrowser();
    const scopes = SCOPES;
    const { id } = await app.createKey('alice', { name: 'billing-export-of-production', scopes });
    await oldestOf(app);
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      await page.getByText(/^The newest \d+ keys$/).waitFor();
      const search = page.getByRole('searchbox');
      for (const text of [id, 'billing-export-of-production']) {
        await page.getByRole('button', { name: 'Refresh' }).click();
        await page.getByText(/^The newest \d+ keys$/).waitFor();
        await page.getByRole('button', { name: /^All \d+\+$/ }).waitFor(); // there are more
        await paste(page, search, text);
        await page.getByText(`1 of ${KEYS + 1} keys`, { exact: true }).waitFor();
        await page.getByRole('button', { name: `All ${KEYS + 1}`, exact: true }).waitFor();
        expect(await search.inputValue()).toBe(text);
        expect(await page.getByText('None of your keys').count()).toBe(0);
        await search.fill('');
      }
    });
  });

  test('shows what was pasted last, however late the others are found, and leaves the focus where it is', async () => {
    await using app = await appForBrowser();
    const oldest = await oldestOf(app);
    const newest = await app.createKey('alice', { name: 'the newest' });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      await page.getByText(/^The newest \d+ keys$/).waitFor();
      const search = page.getByRole('searchbox');
      /** Looks for the oldest key, and meanwhile does something else, before its page comes. */
      const findLate = async (act: () => Promise<unknown>) => {
        const mayAnswer = Promise.withResolvers<void>();
        await page.route(LISTS, async (route) => {
          if (/cursor/.test(route.request().postData() ?? '')) await mayAnswer.promise;
          await route.continue();
        });
        await paste(page, search, oldest.key);
        await act();
        mayAnswer.resolve();
        await page.getByText(new RegExp(`^${KEYS + 1} keys$`)).waitFor();
        await page.evaluate(() => new Promise(requestAnimationFrame));
        await page.unroute(LISTS);
      };
      await findLate(async () => {
        await paste(page, search, newest.key);
        await said(page, 'It is “\u2068the newest\u2069”, active.');
      });
      await said(page, 'It is “\u2068the newest\u2069”, active.');
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByText(/^The newest \d+ keys$/).waitFor();
      const name = page.getByRole('textbox', { name: 'Name' });
      await findLate(async () => {
        await page.getByRole('button', { name: 'Create a key' }).click();
        await name.fill('another');
      });
      await said(page, 'It is “\u2068the oldest\u2069”, active.');
      expect(await name.evaluate((field) => field === document.activeElement)).toBe(true);
    });
  });

  test('is read anew while a row of a later page is open, which stays open, as does the page', async () => {
    await using app = await appForBrowser();
    const oldest = await oldestOf(app);
    await withKeysPage(browser(), app, { ...(await link(app)), quiet: true }, async ({ page }) => {
      await press(page.getByRole('button', { name: 'Show more' }));
      await page.getByText(`${KEYS} keys`, { exact: true }).waitFor();
      await press(page.getByRole('button', { name: 'More about the oldest' }));
      await page.getByText(/^Made by alice/).waitFor();
      await page.getByRole('button', { name: 'Refresh' }).click();
      await said(page, 'Refreshed at');
      await page.getByRole('button', { name: 'Refresh', exact: true }).waitFor();
      await page.getByRole('button', { name: 'More about the oldest', expanded: true }).waitFor();
      await page.getByText(/^Made by alice/).waitFor();

      const another = await app.createKey('alice', { name: 'made meanwhile' });
      const search = page.getByRole('searchbox');
      for (const { key } of [another, oldest]) {
        await search.fill(key);
        await said(page, /^It is “.+”, active\./);
      }
    });
  });

  test('is given up after 20 seconds without an answer, beside the button', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'only one' });
    await withKeysPage(browser(), app, { ...(await link(app)), quiet: true }, async ({ page }) => {
      await page.getByText('1 key', { exact: true }).waitFor();
      await using timeouts = await holdTimeouts(page);
      await page.route(LISTS, () => {}); // never answered
      const refresh = page.getByRole('button', { name: 'Refresh', exact: true });
      await refresh.click();
      await page.getByRole('button', { name: 'Refreshing…' }).waitFor();
      const words = page.getByText('The list could not be refreshed. No answer came. Try again.');
      await timeouts.pass(19_999);
      expect(await words.count()).toBe(0);
      await timeouts.pass(20_000);
      await words.waitFor();
      const [below, above] = [await words.boundingBox(), await refresh.boundingBox()];
      expect((below?.y ?? 0) - (above?.y ?? 0)).toBeLessThan(100);
    });
  });

  test('says so when an answer can’t be shown, and goes on with the next', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'only one' });
    const { at } = await link(app);
    await using taken = await takePage(browser());
    const { page } = taken;
    await page.goto(`${app.url}/keys${at}`);
    await page.getByText('1 key', { exact: true }).waitFor();
    await page.route('**/keys/events', (route) =>
      route.fulfill({ json: { events: [{ at: 'noon', kind: 'created' }] } }),
    );
    const more = page.getByRole('button', { name: 'More about only one' });
    await more.click();
    await page.getByRole('alert').getByText('This could not be shown.').waitFor();
    await more.click();
    await page.getByRole('alert').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Create a key' }).click();
    await page.getByRole('heading', { name: 'New key' }).waitFor();
  });

  test('shows the new secret of a key of a later page, though the list was read anew while it was made', async () => {
    await using app = await appForBrowser();
    await oldestOf(app);
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      await press(page.getByRole('button', { name: 'Show more' }));
      await page.getByText(`${KEYS} keys`, { exact: true }).waitFor();
      const release = await holdBack(page, '**/tools/rotate_api_key');
      await press(page.getByRole('button', { name: 'Rotate the oldest' }));
      const question = page.getByRole('group', { name: 'Rotate the oldest?' });
      await press(question.getByRole('button', { name: 'Rotate' }));
      await page.getByRole('button', { name: 'Refresh' }).click();
      await said(page, 'Refreshed at');
      await question.waitFor();
      release();
      await page.getByRole('group', { name: 'New key of the oldest' }).waitFor();
    });
  });

  test('shows a new secret until it is saved, though its key is on a page that isn’t shown any more', async () => {
    await using app = await appForBrowser();
    await oldestOf(app);
    await withKeysPage(browser(), app, { ...(await link(app)), quiet: true }, async ({ page }) => {
      await press(page.getByRole('button', { name: 'Show more' }));
      await page.getByText(`${KEYS} keys`, { exact: true }).waitFor();
      await press(page.getByRole('button', { name: 'Rotate the oldest' }));
      const question = page.getByRole('group', { name: 'Rotate the oldest?' });
      await press(question.getByRole('button', { name: 'Rotate' }));
      const secret = page.getByRole('group', { name: 'New key of the oldest' });
      await secret.waitFor();
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByText(/^The newest \d+ keys$/).waitFor();
      await press(secret.getByRole('button', { name: 'Show key' }));
      const key = (await secret.locator('code').first().textContent()) ?? '';
      expect((await app.call('whoami', {}, { 'x-api-key': key })).status).toBe(200);

      await press(page.getByRole('button', { name: 'Show more' }));
      await page.getByText(`${KEYS} keys`, { exact: true }).waitFor(); // each once
      await press(secret.getByRole('button', { name: 'I have saved it' }));
      await secret.waitFor({ state: 'detached' });
      await page.getByRole('button', { name: 'Rotate the oldest' }).waitFor();
    });
  });
});
