// The second view of the page /keys, for admins: the keys of all owners, page by page, and how they are ended.

import { expect, test } from 'bun:test';
import { confirm, describeInBrowser } from '../../support/browser.ts';
import { inRest } from '../../support/everything.ts';
import { ADMINS } from '../../support/test-app.ts';
import { adminLink, appForBrowser, link, withKeysPage } from './keys-page.ts';

const env = ADMINS;

inRest(describeInBrowser)('the keys of all owners', (browser) => {
  test('are there for a token with the claim, in a list or in text, and not offered to anybody else', async () => {
    await using app = await appForBrowser({ env });
    await using without = await appForBrowser();
    await app.createKey('alice', { name: 'of alice' });
    for (const [at, claims, isOffered] of [
      [app, { roles: ['staff', 'keys-admin'] }, true],
      [app, { roles: 'staff keys-admin' }, true],
      [app, {}, false],
      [app, { roles: ['admin', 'keys-admin2'] }, false],
      [without, { roles: 'keys-admin' }, false],
    ] as const) {
      await withKeysPage(browser(), at, await link(at, 'carol', claims), async ({ page }) => {
        await page.getByText('Signed in as carol').waitFor();
        const all = page.getByRole('button', { name: 'All keys' });
        // The operators' part comes a while after the sign-in; others begin with a form.
        await (isOffered ? all : page.getByRole('heading', { name: 'New key' })).waitFor();
        expect({ claims, isOffered: await all.isVisible() }).toEqual({ claims, isOffered });
        if (!isOffered) return;
        await all.click();
        await page.getByText('of alice').first().waitFor();
      });
    }
  });

  test('come in pages, can be searched by owner, and revoked one by one or all of an owner', async () => {
    await using app = await appForBrowser({ env });
    const named = (index: number) => ({ name: `key ${index}` });
    for (let index = 0; index < 105; index++) await app.createKey('alice', named(index));
    const { key: ofBob } = await app.createKey('bob', { name: 'of bob' });
    const { key: last } = await app.createKey('alice', { name: 'the last' });
    const { key: another } = await app.createKey('alice', { name: 'another' });
    const statusOf = async (key: string) => (await app.call('whoami', {}, { 'x-api-key': key })).status;
    const token = await app.token('carol', { roles: 'keys-admin' });
    await withKeysPage(browser(), app, { at: `#token=${token}` }, async ({ page }) => {
      await page.getByRole('button', { name: 'All keys' }).click();
      await page.getByText('The newest 100 keys').waitFor();
      await page.getByRole('button', { name: 'Show more' }).press('Enter'); // rows that grow when seen move it
      await page.getByText('108 keys', { exact: true }).waitFor();
      expect(await page.getByRole('button', { name: 'Show more' }).count()).toBe(0);

      const owner = page.getByLabel('Owner, exactly');
      await owner.fill('alice');
      await page.keyboard.press('Enter');
      await page.getByRole('button', { name: 'More about the last' }).click();
      await confirm(page, 'Revoke', 'the last');
      await page.getByText('API key revoked').waitFor();
      expect([await statusOf(last), await statusOf(another), await statusOf(ofBob)]).toEqual([401, 200, 200]);
      expect(await page.getByRole('button', { name: /^(Rotate|Delete)/ }).count()).toBe(0);

      await page.getByRole('button', { name: 'Revoke all keys' }).click();
      await page.getByRole('button', { name: 'Cancel' }).click();
      expect(await page.getByRole('button', { name: 'Revoke all', exact: true }).isVisible()).toBe(false);
      expect(await statusOf(another)).toBe(200);
      await page.getByRole('button', { name: 'Revoke all keys' }).click();
      await page.getByRole('button', { name: 'Revoke all', exact: true }).click();
      await page.getByRole('status').getByText('106 keys revoked').waitFor();
      expect([await statusOf(another), await statusOf(ofBob)]).toEqual([401, 200]);
    });
  });

  test('are shown beside a new secret, which stays where it was until it is saved', async () => {
    await using app = await appForBrowser({ env });
    await app.createKey('carol', { name: 'mine' });
    const { at } = await adminLink(app);
    await withKeysPage(browser(), app, { at }, async ({ page }) => {
      await confirm(page, 'Rotate', 'mine');
      const secret = page.getByRole('group', { name: 'New key of mine' });
      await secret.waitFor();
      const all = page.getByRole('button', { name: 'All keys', exact: true });
      await all.click();
      await page.getByText('of carol').waitFor();
      expect(await secret.count()).toBe(0);
      expect(await all.evaluate((button) => button === document.activeElement)).toBe(true);
      await page.getByRole('button', { name: 'Your keys' }).click();
      await secret.getByRole('button', { name: 'Show key' }).click();
      const key = (await secret.locator('code').first().textContent()) ?? '';
      expect((await app.call('whoami', {}, { 'x-api-key': key })).status).toBe(200);
      await secret.getByRole('button', { name: 'I have saved it' }).click();
      await secret.waitFor({ state: 'detached' });
    });
  });
});
