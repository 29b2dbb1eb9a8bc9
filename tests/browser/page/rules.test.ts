// A key as which workloads act, on the page /keys.

import { expect, test } from 'bun:test';
import { describeInBrowser } from '../../support/browser.ts';
import { appForBrowser, withKeysPage } from './keys-page.ts';

const ISSUER = 'https://token.actions.githubusercontent.com';
const SUBJECTS = ['repo:acme/app:environment:production', 'repo:acme/app:environment:staging'];

describeInBrowser('rules of a key', (browser) => {
  test('are counted in its opened row, with the history of each, for its owner and for an admin', async () => {
    await using app = await appForBrowser({ env: { ADMIN_CLAIM: 'roles=keys-admin' } });
    const { id } = await app.createKey('acme', { name: 'CI' });
    await app.createKey('acme', { name: 'without' });
    for (const subject of SUBJECTS) {
      await app.keys('rule', 'add', id, '--issuer', ISSUER, '--subject', subject, '--claim', 'repository_id=42');
    }
    const tokens = [await app.token('acme'), await app.token('carol', { roles: 'keys-admin' })];
    for (const [index, token] of tokens.entries()) {
      await withKeysPage(browser(), app, { at: `#token=${token}` }, async ({ page }) => {
        if (index === 1) await page.getByRole('button', { name: 'All keys', exact: true }).click();
        await page.getByRole('button', { name: 'More about CI' }).click();
        await page.getByText('2 rules let workloads act as this key').waitFor();
        const history = page.getByRole('list', { name: 'History' });
        for (const subject of SUBJECTS) await history.getByText(`Rule for workloads added (${subject}) by `).waitFor();
        await page.getByRole('button', { name: 'More about without' }).click();
        await page
          .getByText(/^Made by acme/)
          .nth(1)
          .waitFor();
        expect(await page.getByText('workloads act as this key').count()).toBe(1);
      });
    }
  });
});
