// What is typed on the page /keys while its form goes away: to sign in at an issuer, or to decide what a link asks for.

import { expect, test } from 'bun:test';
import type { Page } from 'playwright-core';
import { describeInBrowser, press, stopClock } from '../../support/browser.ts';
import { inRest } from '../../support/everything.ts';
import { register } from '../../support/hand-over.ts';
import { askForKey, pollForKey } from '../../support/key-request.ts';
import { lenientIssuer } from '../../support/lenient-issuer.ts';
import { ADMINS, type Env, type TestApp } from '../../support/test-app.ts';
import {
  adminLink,
  appAt,
  appForBrowser,
  find,
  follow,
  holdBack,
  link,
  pasteToken,
  said,
  withKeysPage,
} from './keys-page.ts';

const signIn = (page: Page) => page.getByRole('button', { name: /^Sign in with 127\.0\.0\.1:/ }).click();
const nameField = (where: Pick<Page, 'getByRole'>) => where.getByRole('textbox', { name: 'Name' });
const box = (page: Page, name: string) => page.getByRole('checkbox', { name, exact: true });

interface AtIssuer {
  readonly app: TestApp;
  readonly page: Page;
  /** Who signs in from now on. */
  become(claims: Record<string, unknown>): void;
  /** Ends the session, which the page finds out by the button. */
  expire(button: string): Promise<void>;
}

/** Runs `use` on the page of an app whose people sign in at an issuer, once `prepare` has made its keys. */
async function atIssuer(
  browser: Parameters<typeof withKeysPage>[0],
  env: Env,
  prepare: (app: TestApp) => Promise<unknown>,
  use: (at: AtIssuer) => Promise<void>,
): Promise<void> {
  await using issuer = await lenientIssuer();
  await using app = await appAt(issuer, env);
  await prepare(app);
  await withKeysPage(browser, app, { issuer: issuer.url, quiet: true }, async ({ page }) => {
    await use({
      app,
      page,
      become(claims) {
        issuer.answers = { claims };
      },
      async expire(button) {
        app.clock.advance(7_200_000);
        await page.getByRole('button', { name: button, exact: true }).first().click();
        await page.getByRole('alert').getByText('Sign in again: what you have typed is kept.').waitFor();
      },
    });
  });
}

describeInBrowser('what is typed before signing in at an issuer again', (browser) => {
  const KEYS = [
    ['--user', 'alice', '--name', 'billing', '--scope', 'read'],
    ['--user', 'alice', '--name', 'ci', '--scope', 'read', '--scope', 'write', '--scope', 'deploy'],
  ];

  test('in open rows is there, can be saved, and is nobody else’s', () =>
    atIssuer(
      browser(),
      {},
      async (app) => {
        for (const key of KEYS) await app.keys('create', ...key);
      },
      async ({ page, become, expire }) => {
        await signIn(page);
        await press(page, 'More about billing');
        await press(page, 'Rename: billing');
        await page.keyboard.type('half <b>typed</b>');
        await press(page, 'More about ci');
        await press(page, 'Fewer scopes: ci');
        await box(page, 'write').uncheck();
        await expire('Save');
        await signIn(page);
        await page.getByText('Signed in as alice').waitFor();
        expect(await nameField(page).inputValue()).toBe('half <b>typed</b>');
        expect([await box(page, 'read').isChecked(), await box(page, 'write').isChecked()]).toEqual([true, false]);
        await nameField(page).press('Enter');
        await page.getByText(/^Renamed by alice/).waitFor();
        await press(page, 'Save');
        await page.getByText(/^Scopes changed by alice/).waitFor();

        await press(page, 'Rename: ci');
        await page.keyboard.type('of alice');
        await expire('Save');
        become({ sub: 'bob' });
        await signIn(page);
        await page.getByText('Signed in as bob').waitFor();
        expect(await page.content()).not.toContain('of alice');
      },
    ));

  const carol = { sub: 'carol', roles: 'keys-admin' };
  const ofCarol = (app: TestApp) => app.keys('create', '--user', 'carol', '--name', 'billing', '--scope', 'read');
  const ofAcme = (app: TestApp) => app.keys('create', '--user', 'Acme Corp', '--name', 'production', '--scope', 'read');

  test('by an admin is there: in the plan of an owner, beside what another has changed, and in the row of a key', () =>
    atIssuer(browser(), ADMINS, ofAcme, async ({ app, page, become, expire }) => {
      become(carol);
      await signIn(page);
      await press(page, 'Open Acme Corp');
      await press(page, 'Change the plan: Acme Corp');
      await page.locator('#quota-plan').fill('50');
      await page.getByLabel('Data').fill('plan=gold');
      await press(page, 'More about production');
      await press(page, 'Change: production');
      await page.keyboard.type('half typed');
      await expire('Save');
      await app.keys('owner', 'Acme Corp', '--limit', '100/1h');
      app.clock.advance(1000);
      await signIn(page);
      await page.getByRole('region', { name: 'Owner Acme Corp' }).waitFor();
      await page.getByRole('textbox', { name: 'Name' }).waitFor();
      expect(await page.getByRole('textbox', { name: 'Name' }).inputValue()).toBe('half typed');
      expect(await page.locator('#quota-plan').inputValue()).toBe('50');
      expect(await page.locator('#limit-plan').inputValue()).toBe('100'); // as it is now
      await page.getByRole('button', { name: 'Save' }).first().click();
      await said(page, 'Saved. Quota: was none, is 50 a day; Data: was \u2068none\u2069, is \u2068plan=gold\u2069.');
    }));

  inRest(test)('by an admin in one of all keys is there, in the choice that was looked at', () =>
    atIssuer(browser(), ADMINS, ofAcme, async ({ page, become, expire }) => {
      become(carol);
      await signIn(page);
      await press(page, 'All keys');
      await press(page, 'Never expire');
      await press(page, 'More about production');
      await press(page, 'Change: production');
      await page.keyboard.type('half typed');
      await expire('Save');
      await signIn(page);
      await page.getByRole('button', { name: 'Never expire', pressed: true }).waitFor();
      await page.getByRole('textbox', { name: 'Name' }).waitFor();
      expect(await page.getByRole('textbox', { name: 'Name' }).inputValue()).toBe('half typed');
    }),
  );

  test('by an admin in an own key is there once: what is typed before the part for operators is there stays', () =>
    atIssuer(browser(), ADMINS, ofCarol, async ({ page, become, expire }) => {
      become(carol);
      await signIn(page);
      await press(page, 'More about billing');
      await press(page, 'Rename: billing');
      await page.keyboard.type('half typed');
      await expire('Save');
      const release = await holdBack(page, '**/keys/operators.js');
      await signIn(page);
      await page.getByText('Signed in as carol').waitFor();
      await nameField(page).fill('wholly typed');
      release();
      await page.getByRole('button', { name: 'All keys' }).waitFor();
      expect(await nameField(page).inputValue()).toBe('wholly typed');
    }));

  inRest(test)(
    'by an admin in all keys does not come over a key that is begun before the part for operators is there',
    () =>
      atIssuer(browser(), ADMINS, ofAcme, async ({ page, become, expire }) => {
        become(carol);
        await signIn(page);
        await press(page, 'All keys');
        await expire('Refresh');
        const release = await holdBack(page, '**/keys/operators.js');
        await signIn(page);
        await press(page, 'Create a key');
        await nameField(page).fill('begun before');
        release();
        await page.getByRole('button', { name: 'All keys', pressed: false }).waitFor();
        expect(await nameField(page).inputValue()).toBe('begun before');
      }),
  );
});

describeInBrowser('what is typed before a link asks for a decision', (browser) => {
  const ENV = { OAUTH_REDIRECTS: 'https://client.example/back', OAUTH_DEVICE: '1' };
  const connectTo = async (app: TestApp) => {
    const client = await register(app, ['https://client.example/back']);
    return { at: `#connect=${encodeURIComponent(client.page({ scope: 'read write' }).search.slice(1))}` };
  };

  test('is there once that is left: a new key, and an edit', async () => {
    await using app = await appForBrowser({ env: ENV });
    await app.createKey('alice', { name: 'billing' });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      await press(page, 'More about billing');
      await press(page, 'Rename: billing');
      await page.keyboard.type('renamed');
      await press(page, 'Create a key');
      const form = page.getByRole('form', { name: 'New key' });
      await nameField(form).fill('half typed');
      await box(page, 'read').check();
      await page.getByRole('textbox', { name: 'Other scopes' }).fill('write');
      await page.getByText('Limits', { exact: true }).click();
      await page.getByLabel('Quota', { exact: true }).fill('7');
      await follow(page, await connectTo(app));
      await page.getByRole('heading', { name: /handed to client.example/ }).waitFor();
      expect(await nameField(page).inputValue()).toBe('client.example');
      await nameField(page).fill('for the client');
      await follow(page, { at: '#ask=BCDF-GHJK' });
      await press(page, 'No');
      await follow(page, await connectTo(app));
      await press(page, 'Not now');
      expect(await nameField(form).inputValue()).toBe('half typed');
      expect(await box(page, 'read').isChecked()).toBe(true);
      expect(await page.getByRole('textbox', { name: 'Other scopes' }).inputValue()).toBe('write');
      expect(await page.getByLabel('Quota', { exact: true }).inputValue()).toBe('7');
      await page.getByRole('form', { name: 'Rename' }).getByRole('textbox').press('Enter');
      await page.getByRole('button', { name: 'More about renamed' }).waitFor();
      await press(page, 'Create key');
      await page.getByRole('group', { name: 'New key of half typed' }).waitFor();
    });
  });

  test('is there once a program’s request is decided, and the list shows the key that the program gets', async () => {
    await using app = await appForBrowser({ env: ENV });
    const { body: asked } = await askForKey(app, { client_name: 'backup', scope: 'read' });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      await nameField(page).fill('half typed');
      await follow(page, { at: `#ask=${asked.user_code}` });
      await press(page, 'Yes, it shows this code');
      await box(page, 'read').check();
      await stopClock(page);
      await press(page, 'Make the key');
      await said(page, 'The program gets its key when it asks next, within seconds.');
      expect(await nameField(page).inputValue()).toBe('half typed');
      app.clock.advance(10_000);
      expect((await pollForKey(app, asked.device_code)).status).toBe(200);
      const made = page.getByRole('button', { name: 'Rotate backup' });
      while (!(await made.isVisible())) await page.clock.runFor(1000);
      expect(await nameField(page).inputValue()).toBe('half typed');
    });
  });

  test('and for that decision, is not there for the person who signs in instead', async () => {
    await using app = await appForBrowser({ env: ENV });
    await withKeysPage(browser(), app, { ...(await connectTo(app)), quiet: true }, async ({ page }) => {
      await pasteToken(page, await app.token('alice'));
      await nameField(page).fill('in the words of alice');
      await box(page, 'write').uncheck();
      app.clock.advance(7_200_000);
      await press(page, 'Make the key and hand it over');
      await page.getByRole('alert').getByText('what you have typed is kept').waitFor();
      await pasteToken(page, await app.token('bob'));
      await page.getByText('Signed in as bob').waitFor();
      expect(await nameField(page).inputValue()).toBe('client.example');
      expect(await box(page, 'write').isChecked()).toBe(true);
    });
  });
});

describeInBrowser('what is chosen and searched in a list that comes back', (browser) => {
  test('is what is shown: how to rotate a key, and which keys are listed', async () => {
    await using app = await appForBrowser({ env: { OAUTH_DEVICE: '1' } });
    const { key } = await app.createKey('alice', { name: 'billing' });
    await app.createKey('alice', { name: 'ci' });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      const leaveAndComeBack = async () => {
        await page.getByRole('link', { name: 'A program asks for a key' }).click();
        await press(page, 'Cancel');
      };
      const list = page.getByRole('searchbox');
      await list.fill('bill');
      await page.getByText('1 of 2 keys', { exact: true }).waitFor();
      await leaveAndComeBack();
      await page.getByText('1 of 2 keys', { exact: true }).waitFor();
      expect(await list.inputValue()).toBe('bill');

      await press(page, 'Rotate billing');
      const question = page.getByRole('group', { name: 'Rotate billing?' });
      const leaked = question.getByRole('radio', { name: /^It leaked/ });
      const end = question.getByRole('combobox', { name: 'Expires' });
      await leaked.check();
      await end.selectOption('in 30 days');
      await leaveAndComeBack();
      expect(await leaked.isChecked()).toBe(true);
      expect(await end.inputValue()).toBe('30');
      await question.getByRole('radio', { name: /^Replace it/ }).check();
      await end.selectOption('as before');
      await leaveAndComeBack();
      expect(await leaked.isChecked()).toBe(false);
      expect(await end.inputValue()).toBe('');
      await question.getByRole('button', { name: 'Rotate', exact: true }).click();
      await page.getByRole('group', { name: 'New key of billing' }).waitFor();
      expect((await app.useKey(key)).status).toBe(200);
    });
  });

  test('is what an admin searches for: an owner is found by what the choice says', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    await app.createKey('acme', { name: 'leaked' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      const meaning = page.getByLabel('Search for');
      await meaning.selectOption('A whole key');
      await press(page, 'Your keys');
      await press(page, 'Owners');
      expect(await meaning.inputValue()).toBe('whole');
      await find(page, 'Owner, exactly', 'acme');
      await page.getByRole('region', { name: 'Owner acme' }).waitFor();
    });
  });
});
