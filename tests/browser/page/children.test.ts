// The keys that a key has made for its programs, on the page /keys.

import { expect, test } from 'bun:test';
import { describeInBrowser } from '../../support/browser.ts';
import { childOf } from '../../support/children.ts';
import { appForBrowser, link, withKeysPage } from './keys-page.ts';

describeInBrowser('keys of a key', (browser) => {
  test('are counted and listed in its row, and one is ended there, alone', async () => {
    await using app = await appForBrowser();
    const { key } = await app.createKey('alice', { name: 'orchestrator', scopes: ['read', 'delegate'] });
    const make = async (name: string) => (await childOf(app, key, { client_name: name })).key;
    const children = [await make('first agent'), await make('second agent')];
    const statuses = () => Promise.all(children.map(async (child) => (await app.useKey(child)).status));
    expect(await statuses()).toEqual([200, 200]);
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      await page.getByText('2 keys for its programs').waitFor();
      await page.getByRole('button', { name: 'More about orchestrator' }).click();
      await page.getByRole('button', { name: 'End first agent' }).click();
      const question = page.getByRole('group', { name: 'End first agent?' });
      const row = page.getByRole('listitem').filter({ hasText: 'orchestrator' }).first();
      expect(await row.getByRole('button').allTextContents()).toEqual(['End', 'Cancel']);
      await question.getByRole('button', { name: 'End', exact: true }).click();
      await page.getByRole('button', { name: 'End second agent' }).waitFor();
      expect(await page.getByRole('button', { name: 'End first agent' }).count()).toBe(0);
      await page.getByText('1 key for its programs').waitFor();
      const history = page.getByRole('list', { name: 'History' });
      for (const name of ['first agent', 'second agent']) {
        await history.getByText(`Made a key for a program, ${name}, `).waitFor();
      }
      await page.getByRole('button', { name: 'Rotate orchestrator' }).click();
      await page.getByText('if one of those leaked, end that one').waitFor();
      expect(await row.getByRole('button').allTextContents()).toEqual(['Rotate', 'Cancel']);
      await row.getByRole('button', { name: 'Cancel' }).click();
      await page.getByRole('button', { name: 'End second agent' }).click();
      await row.getByRole('button', { name: 'End', exact: true }).click();
      await page.getByText('All have ended.').waitFor();
      expect(await page.getByText('for its programs', { exact: false }).allTextContents()).toEqual([
        'Keys for its programs',
      ]);
    });
    expect(await statuses()).toEqual([401, 401]);
  });
});
