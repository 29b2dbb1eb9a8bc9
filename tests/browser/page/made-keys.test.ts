// What acts by a key, on the page /keys: workloads by its rules, and the keys that it has made for its programs.

import { expect, test } from 'bun:test';
import { describeInBrowser } from '../../support/browser.ts';
import { childOf, JWT_BEARER } from '../../support/children.ts';
import { databaseOf, executeAt } from '../../support/database-client.ts';
import { createIssuer } from '../../support/issuer.ts';
import { appForBrowser, link, withKeysPage } from './keys-page.ts';

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

  test('have made keys, which are listed, and which a rotation does not end, as its question says', async () => {
    await using app = await appForBrowser();
    await using issuer = await createIssuer();
    const { id } = await app.createKey('acme', { name: 'CI' });
    const rule = ['--issuer', issuer.url, '--subject', 'repo:acme/app:main', '--audience', 'https://tools.example'];
    await app.keys('rule', 'add', id, ...rule);
    app.clock.advance(1001); // the bound
    const nowS = Math.floor(app.clock.nowMs() / 1000);
    const claims = { sub: 'repo:acme/app:main', aud: 'https://tools.example', iat: nowS, exp: nowS + 300 };
    const form = { grant_type: JWT_BEARER, assertion: await issuer.token(claims) };
    const made = await fetch(`${app.url}/token`, { method: 'POST', body: new URLSearchParams(form) });
    const { access_token: child } = (await made.json()) as { access_token: string };
    expect(made.status).toBe(200);
    await withKeysPage(browser(), app, await link(app, 'acme'), async ({ page }) => {
      await page.getByText('1 key for its programs').waitFor();
      await page.getByRole('button', { name: 'Rotate CI' }).click();
      await page.getByText('whatever you choose: if one of those leaked, end that one').waitFor();
      await page.getByText('It leaked: end it now').click();
      await page.getByRole('button', { name: 'Rotate', exact: true }).click();
      await page.getByText('API key rotated').waitFor();
      expect((await app.useKey(child)).status).toBe(200);
    });
  });
});

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
      await page.getByText('1 key for its programs').waitFor();
      await page.getByRole('button', { name: 'End second agent' }).waitFor();
      expect(await page.getByRole('button', { name: 'End first agent' }).count()).toBe(0);
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

  test('are listed, and ended, though an end beyond all dates was typed into the database', async () => {
    await using app = await appForBrowser();
    const { key } = await app.createKey('alice', { name: 'orchestrator', scopes: ['read', 'delegate'] });
    await childOf(app, key, { client_name: 'agent' });
    await executeAt(databaseOf(app), 'UPDATE children SET expires_at_ms = 9007199254740991');
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      await page.getByRole('button', { name: 'More about orchestrator' }).click();
      await page.getByRole('button', { name: 'End agent' }).click();
      await page.getByRole('group', { name: 'End agent?' }).getByRole('button', { name: 'End', exact: true }).click();
      await page.getByText('All have ended.').waitFor();
    });
  });
});
