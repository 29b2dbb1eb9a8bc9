// A list of keys that comes in pages: what is found in those that aren't shown yet, and what stays when the first comes again.

import { expect, test } from 'bun:test';
import type { Page } from 'playwright-core';
import { describeInBrowser } from '../../support/browser.ts';
import type { TestApp } from '../../support/test-app.ts';
import { appForBrowser, withKeysPage } from './keys-page.ts';

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
const link = async (app: TestApp) => ({ at: `#token=${await app.token('alice')}`, quiet: true });
const said = (page: Page, words: string) => page.getByRole('status').getByText(words).waitFor();

describeInBrowser('a list in pages', (browser) => {
  test('finds a key that is pasted on each of them, also one that was made meanwhile; a lost page is no answer', async () => {
    await using app = await appForBrowser();
    const oldest = await oldestOf(app);
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      await page.getByText(/^The newest \d+ keys$/).waitFor();
      const search = page.getByRole('searchbox');
      await page.route(LISTS, (route) =>
        /cursor/.test(route.request().postData() ?? '') ? route.abort() : route.continue(),
      );
      await search.fill(oldest.key);
      await said(page, 'Not found yet');
      await page.route(LISTS, (route) => route.abort());
      await search.fill(oldest.key);
      await said(page, 'Not found yet');
      await page.unroute(LISTS);

      await search.fill(`sk_test_${'0'.repeat(64)}`);
      await said(page, 'None of your keys');
      expect(await search.evaluate((field) => field === document.activeElement)).toBe(true);
      const another = await app.createKey('alice', { name: 'made meanwhile' });
      for (const [{ key }, name] of [
        [another, 'made meanwhile'],
        [oldest, 'the oldest'],
      ] as const) {
        await search.fill(key);
        await said(page, 'It is this one.');
        await page.getByRole('button', { name: `More about ${name}`, expanded: true }).waitFor();
      }
    });
  });

  test('shows a new secret until it is saved, though its key is on a page that isn’t shown any more', async () => {
    await using app = await appForBrowser();
    await oldestOf(app);
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      await page.getByRole('button', { name: 'Show more' }).click();
      await page.getByText(`${KEYS} keys`, { exact: true }).waitFor();
      await page.getByRole('button', { name: 'Rotate the oldest' }).click();
      const question = page.getByRole('group', { name: 'Rotate the oldest?' });
      await question.getByRole('button', { name: 'Rotate' }).click();
      const secret = page.getByRole('group', { name: 'New key of the oldest' });
      await secret.waitFor();
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByText(/^The newest \d+ keys$/).waitFor();
      await secret.getByRole('button', { name: 'Show key' }).click();
      const key = (await secret.locator('code').first().textContent()) ?? '';
      expect((await app.call('whoami', {}, { 'x-api-key': key })).status).toBe(200);

      await page.getByRole('button', { name: 'Show more' }).click();
      await page.getByText(`${KEYS} keys`, { exact: true }).waitFor(); // each once
      await secret.getByRole('button', { name: 'I have saved it' }).click();
      await secret.waitFor({ state: 'detached' });
      await page.getByRole('button', { name: 'Rotate the oldest' }).waitFor();
    });
  });
});
