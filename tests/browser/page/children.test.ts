// The keys that a key has made for its programs, on the page /keys.

import { expect, test } from 'bun:test';
import { describeInBrowser } from '../../support/browser.ts';
import { childOf } from '../../support/children.ts';
import { appForBrowser, withKeysPage } from './keys-page.ts';

describeInBrowser('keys of a key', (browser) => {
  test('are counted and listed in its row, and one is ended there, alone', async () => {
    await using app = await appForBrowser();
    const { key } = await app.createKey('alice', { name: 'orchestrator', scopes: ['read', 'delegate'] });
    const make = async (name: string) => (await childOf(app, key, { client_name: name })).key;
    const children = [await make('first agent'), await make('second agent')];
    const statuses = () => Promise.all(children.map(async (child) => (await app.useKey(child)).status));
    expect(await statuses()).toEqual([200, 200]);
    await withKeysPage(browser(), app, { at: `#token=${await app.token('alice')}` }, async ({ page }) => {
      await page.getByText('2 keys for its programs').waitFor();
      await page.getByRole('button', { name: 'More about orchestrator' }).click();
      await page.getByRole('button', { name: 'End first agent' }).click();
      const question = page.getByRole('group', { name: 'End first agent?' });
      await question.getByRole('button', { name: 'End', exact: true }).click();
      await page.getByRole('button', { name: 'End first agent' }).waitFor({ state: 'detached' });
      await page.getByRole('button', { name: 'End second agent' }).waitFor();
      await page.getByRole('button', { name: 'Rotate orchestrator' }).click();
      await page.getByText('if one of those leaked, end that one').waitFor();
    });
    expect(await statuses()).toEqual([401, 200]);
  });
});
