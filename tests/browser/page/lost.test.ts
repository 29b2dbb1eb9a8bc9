// Answers that the page /keys does not get: the connection is lost before or after the server decides, or a proxy in
// between answers in its own words.

import { expect, test } from 'bun:test';
import type { Locator, Page, Route } from 'playwright-core';
import { confirm, describeInBrowser, press } from '../../support/browser.ts';
import { childOf } from '../../support/children.ts';
import { rows } from '../../support/everything.ts';
import { type Answer, askForKey, pollForKey } from '../../support/key-request.ts';
import { ADMINS, type TestApp } from '../../support/test-app.ts';
import { adminLink, appForBrowser, find, follow, holdBack, link, pasteToken, withKeysPage } from './keys-page.ts';

const alerted = (page: Page, words: string) => page.getByRole('alert').getByText(words, { exact: true }).waitFor();

const CHANGED = 'No answer came. It may have worked all the same: refresh the list to see.';
const LOST: Record<string, (route: Route) => Promise<void>> = {
  'a lost connection': (route) => route.abort(),
  'a limit of a gateway': (route) =>
    route.fulfill({ status: 429, headers: { 'Retry-After': '7' }, json: { message: 'API rate limit exceeded' } }),
  'a page of a proxy': (route) => route.fulfill({ status: 502, contentType: 'text/html', body: '<h1>Bad Gateway' }),
  'JSON of a gateway': (route) => route.fulfill({ status: 502, json: { message: 'no Route matched' } }),
};

describeInBrowser('a token that is over', (browser) => {
  test('is said once, and nowhere any more after signing in again; what could not be read comes by itself', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'billing', scopes: ['read', 'write'] });
    const { key } = await app.createKey('alice', { name: 'parent', scopes: ['read', 'delegate'] });
    await childOf(app, key, { client_name: 'a child', expires_in: '86400' });
    const pressIn = (page: Page, group: string, name: string) =>
      page.getByRole('group', { name: group }).getByRole('button', { name, exact: true }).click();
    const acts: readonly ((page: Page) => Promise<void>)[] = [
      (page) => page.getByRole('button', { name: 'More about parent' }).click(),
      (page) => page.getByRole('button', { name: 'Save', exact: true }).click(),
      async (page) => {
        await page.getByRole('button', { name: 'Cancel' }).click();
        await page.getByRole('button', { name: 'Rotate billing' }).click();
        await pressIn(page, 'Rotate billing?', 'Rotate');
      },
    ];
    await withKeysPage(browser(), app, { ...(await link(app)), quiet: true }, async ({ page }) => {
      await page.getByRole('button', { name: 'More about billing' }).click();
      await page.getByText(/^Made by alice/).waitFor();
      await page.getByRole('button', { name: 'Rename: billing' }).click();
      for (const act of acts) {
        app.clock.advance(7_200_000);
        await act(page);
        await page.getByRole('alert').getByText('Sign in again: what you have typed is kept.').waitFor();
        await pasteToken(page, await app.token('alice'));
        await page.getByRole('heading', { name: 'Sign in' }).waitFor({ state: 'detached' });
        expect(await page.getByRole('alert').count()).toBe(0);
      }
      await page.getByText(/^Made a key for a program/).waitFor();
      await page.getByRole('button', { name: 'End a child' }).waitFor();
      expect(await page.getByText(/Sign in again|expired/).count()).toBe(0);
    });
  });
});

describeInBrowser('no answer of the server', (browser) => {
  test.each(rows(Object.entries(LOST), 2))('but %s is said in a sentence', async (_, respond) => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'billing' });
    await withKeysPage(browser(), app, { ...(await link(app)), quiet: true }, async ({ page }) => {
      await page.getByText('1 key', { exact: true }).waitFor();
      await page.route('**/tools/*', respond);
      await page.getByRole('button', { name: 'Refresh' }).click();
      await alerted(page, 'The list could not be refreshed. No answer came. Try again.');
      await page.getByRole('button', { name: 'Create a key' }).click();
      await page.getByRole('textbox', { name: 'Name' }).fill('another');
      await page.getByRole('textbox', { name: 'Other scopes' }).fill('read');
      await page.getByRole('button', { name: 'Create key' }).click();
      await alerted(page, CHANGED);
      await page.getByRole('button', { name: 'Cancel' }).click();
      await confirm(page, 'Rotate', 'billing');
      await alerted(page, CHANGED);
    });
  });

  test('to an edit is no complaint any more while it is saved again: screen readers read the next one, too', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'billing' });
    await withKeysPage(browser(), app, { ...(await link(app)), quiet: true }, async ({ page }) => {
      await press(page, 'More about billing');
      await press(page, 'Rename: billing');
      await page.route('**/keys/update', (route) => route.abort());
      await press(page, 'Save');
      await alerted(page, CHANGED);
      const mayFail = Promise.withResolvers<void>();
      await page.route('**/keys/update', async (route) => {
        await mayFail.promise;
        await route.abort();
      });
      await press(page, 'Save');
      await page.getByRole('button', { name: 'Saving…' }).waitFor();
      expect(await page.getByRole('alert').count()).toBe(0);
      mayFail.resolve();
      await alerted(page, CHANGED);
      await press(page, 'Cancel');
      await press(page, 'Rename: billing');
      expect(await page.getByRole('alert').count()).toBe(0);
    });
  });

  /** Runs `use` where the person has typed the code of a program that asks, and is to decide. */
  async function withAsked(use: (open: { app: TestApp; page: Page; asked: Answer['body'] }) => Promise<void>) {
    await using app = await appForBrowser({ env: { OAUTH_DEVICE: '1' } });
    const { body: asked } = await askForKey(app, { client_name: 'backup', scope: 'read' });
    await withKeysPage(browser(), app, { ...(await link(app)), quiet: true }, async ({ page }) => {
      await page.getByRole('link', { name: 'A program asks for a key' }).click();
      await page.getByLabel('The code that the program shows').fill(asked.user_code);
      await page.keyboard.press('Enter');
      await use({ app, page, asked });
    });
  }

  test('to a decision leaves it to be made again; one that was made, or ended, is left, and its key shows up', () =>
    withAsked(async ({ app, page, asked }) => {
      const make = page.getByRole('button', { name: 'Make the key', exact: true });
      await make.waitFor();
      await page.route('**/device/decision', (route) => route.abort());
      await page.getByRole('checkbox', { name: 'read' }).check();
      await make.click();
      await alerted(page, 'No answer came. Try again.');
      await page.route('**/device/decision', async (route) => {
        await route.fetch();
        await route.abort();
      });
      const decided = page.waitForEvent('requestfailed');
      await make.click();
      await decided;
      await page.getByRole('button', { name: 'Make the key', exact: true, disabled: false }).waitFor();
      await page.unroute('**/device/decision');
      app.clock.advance(10_000);
      expect((await pollForKey(app, asked.device_code)).status).toBe(200);
      await make.click();
      await page.getByRole('status').getByText('The list has a new key.').waitFor();
      await page.getByRole('button', { name: 'Rotate backup' }).waitFor();
      expect(await make.count()).toBe(0);
    }));

  test('of a program that waits no more: the person is back at the list, and reads why', () =>
    withAsked(async ({ app, page }) => {
      await page.getByText('“backup”, in its own words').waitFor();
      app.clock.advance(601_000);
      await page.getByRole('button', { name: 'Refuse' }).click();
      await page.getByRole('status').getByText('No program waits with this code; it may have ended.').waitFor();
      await page.getByRole('button', { name: 'Create a key' }).waitFor();
      expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('A program asks for a key');
    }));
});

describeInBrowser('an answer that comes late', (browser) => {
  test('shows the new key beside what was begun meanwhile: the form of another one, and a program’s code', async () => {
    await using app = await appForBrowser({ env: { OAUTH_DEVICE: '1' } });
    await app.createKey('alice', { name: 'first' });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      const release = await holdBack(page, '**/tools/create_api_key');
      const name = page.getByRole('textbox', { name: 'Name' });
      const begin = async (called: string) => {
        await page.getByRole('button', { name: 'Create a key' }).click();
        await name.fill(called);
        await page.getByRole('checkbox', { name: 'read' }).check();
      };
      await begin('slow');
      await page.getByRole('button', { name: 'Create key' }).click();
      await page.getByRole('button', { name: 'Cancel' }).click();
      await begin('half typed');
      await page.getByRole('link', { name: 'A program asks for a key' }).click();
      const code = page.getByLabel('The code that the program shows');
      await code.fill('BCDF');
      release();
      await page.getByRole('group', { name: 'New key of slow' }).waitFor();
      expect(await code.inputValue()).toBe('BCDF');
      expect(await code.evaluate((field) => field === document.activeElement)).toBe(true);
      await page.getByRole('button', { name: 'Cancel' }).click();
      await page.getByRole('group', { name: 'New key of slow' }).waitFor();
      expect(await name.inputValue()).toBe('half typed');

      await page.getByRole('button', { name: 'Create key' }).click();
      const secrets = page.getByRole('group', { name: /^New key of (half typed|slow)$/ });
      await secrets.filter({ hasText: 'half typed' }).waitFor();
      for (const called of ['half typed', 'slow']) {
        expect(await page.evaluate(() => document.activeElement?.ariaLabel)).toBe(`New key of ${called}`);
        const secret = page.getByRole('group', { name: `New key of ${called}` });
        await secret.getByRole('button', { name: 'Show key' }).click();
        const key = (await secret.locator('code').first().textContent()) ?? '';
        expect((await app.call('whoami', {}, { 'x-api-key': key })).body).toMatchObject({ name: called });
        expect(await page.getByRole('button', { name: 'Create a key' }).count()).toBe(0);
        await secret.getByRole('button', { name: 'I have saved it' }).click();
      }
      expect(await secrets.count()).toBe(0);
      expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Create a key');
    });
  });

  test('leaves the focus in the form that was begun meanwhile, once the new key is saved', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'first' });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      const release = await holdBack(page, '**/tools/create_api_key');
      await press(page, 'Create a key');
      await page.getByRole('textbox', { name: 'Name' }).fill('slow');
      await page.getByRole('checkbox', { name: 'read' }).check();
      await press(page, 'Create key');
      await press(page, 'Cancel');
      await press(page, 'Create a key');
      release();
      // By the keyboard: the list may still move what is under a pointer.
      await page.getByRole('button', { name: 'I have saved it' }).press('Enter');
      expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Create key');
    });
  });

  test('to an edit that was left leaves another one as it is', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'slow', scopes: ['read', 'write'] });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      const release = await holdBack(page, '**/keys/update');
      await press(page, 'More about slow');
      await press(page, 'Rename: slow');
      await page.getByRole('textbox', { name: 'Name' }).fill('late');
      await press(page, 'Save');
      await press(page, 'Cancel');
      await press(page, 'Fewer scopes: slow');
      const write = page.getByRole('checkbox', { name: 'write' });
      await write.uncheck();
      release();
      await page.getByText(/^Renamed by alice/).waitFor();
      expect(await write.isChecked()).toBe(false);
    });
  });

  test('to a row that was closed, and opened again, breaks nothing: its next keys for programs', async () => {
    await using app = await appForBrowser();
    const { key } = await app.createKey('alice', { name: 'parent', scopes: ['read', 'delegate'] });
    for (const client_name of ['first', 'second']) await childOf(app, key, { client_name });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      const mayAnswer = Promise.withResolvers<void>();
      await page.route('**/tools/list_api_keys', async (route) => {
        const { childrenOf, cursor } = route.request().postDataJSON();
        if (childrenOf === undefined) return route.continue();
        if (cursor !== undefined) await mayAnswer.promise;
        const response = await route.fetch({ postData: JSON.stringify({ childrenOf }) });
        const { keys } = await response.json();
        await route.fulfill({ json: cursor ? { keys: keys.slice(1) } : { keys: keys.slice(0, 1), nextCursor: 'on' } });
      });
      const more = page.getByRole('button', { name: 'More about parent' });
      await more.click();
      const asked = page.waitForRequest((request) => request.postData()?.includes('cursor') === true);
      await press(page, 'More');
      await asked;
      await more.click();
      const answered = page.waitForEvent('requestfinished');
      mayAnswer.resolve();
      await answered;
      await page.getByText('2 keys for its programs').waitFor();
      await more.click();
      await press(page, 'More');
      await page.getByRole('button', { name: 'End first' }).waitFor();
      await page.getByRole('button', { name: 'End second' }).waitFor();
    });
  });

  test('leaves the focus where the person has moved it', async () => {
    await using app = await appForBrowser();
    const { key } = await app.createKey('alice', { name: 'parent', scopes: ['read', 'delegate'] });
    await childOf(app, key, { client_name: 'a child', expires_in: '86400' });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      const search = page.getByRole('searchbox');
      /** Presses a button, and goes on to the search before the server answers. */
      const pressAndGoOn = async (path: string, button: Locator, done: Locator) => {
        const release = await holdBack(page, path);
        await button.click();
        await search.focus();
        release();
        await done.waitFor();
        expect(await search.evaluate((field) => document.activeElement === field)).toBe(true);
        await page.unroute(path);
      };
      await page.getByRole('button', { name: 'More about parent' }).click();
      await page.getByRole('button', { name: 'Rename: parent' }).click();
      await page.keyboard.type('renamed');
      const renamed = page.getByRole('button', { name: 'Rename: renamed' });
      await pressAndGoOn('**/keys/update', page.getByRole('button', { name: 'Save', exact: true }), renamed);
      await page.getByRole('button', { name: 'End a child' }).click();
      const end = page.getByRole('group', { name: 'End a child?' }).getByRole('button', { name: 'End', exact: true });
      await pressAndGoOn('**/tools/revoke_api_key', end, page.getByText('All have ended.'));
    });
  });
});

/** Lets the server answer the first request there whose body has `words`, and the page get that answer when it is let go. */
async function holdAnswer(page: Page, path: string, words = '') {
  const [held, letGo] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let isFirst = true;
  await page.route(path, async (route) => {
    if (!isFirst || !route.request().postData()?.includes(words)) return route.continue();
    isFirst = false;
    const response = await route.fetch();
    held.resolve();
    await letGo.promise;
    await route.fulfill({ response });
  });
  return {
    held: held.promise,
    async letGo() {
      const arrived = page.waitForEvent('requestfinished', (request) => request.url().endsWith(path.slice(2)));
      letGo.resolve();
      await arrived;
      await page.evaluate(() => new Promise(requestAnimationFrame));
    },
  };
}

describeInBrowser('an answer that is older than what is shown', (browser) => {
  test('brings back no name, history or child', async () => {
    await using app = await appForBrowser();
    const { key } = await app.createKey('alice', { name: 'old', scopes: ['read', 'delegate'] });
    for (const client_name of ['first', 'second']) await childOf(app, key, { client_name });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      const history = await holdAnswer(page, '**/keys/events');
      await press(page, 'More about old');
      await history.held;
      const list = await holdAnswer(page, '**/tools/list_api_keys', '{}');
      await press(page, 'Refresh');
      await list.held;
      await press(page, 'Rename: old');
      await page.keyboard.type('new');
      await page.keyboard.press('Enter');
      await page.getByText(/^Renamed by alice/).waitFor();
      await list.letGo();
      await history.letGo();
      await press(page, 'Rename: new');
      await press(page, 'Cancel');
      expect(await page.getByText(/^Renamed by alice/).count()).toBe(1);
      const children = await holdAnswer(page, '**/tools/list_api_keys', 'childrenOf');
      await press(page, 'Refresh');
      await children.held;
      await confirm(page, 'End', 'first');
      await page.getByRole('button', { name: 'End second' }).waitFor(); // the question, which hid both, is gone
      await page.getByRole('button', { name: 'End first' }).waitFor({ state: 'detached' });
      await children.letGo();
      expect(await page.getByRole('button', { name: 'End first' }).count()).toBe(0);
    });
  });

  test('takes back no revocation, where a link has signed the very person in again meanwhile', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'leaked' });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      await page.getByRole('button', { name: 'More about leaked' }).waitFor();
      const list = await holdAnswer(page, '**/tools/list_api_keys');
      await follow(page, await link(app));
      await list.held;
      await press(page, 'More about leaked');
      await confirm(page, 'Revoke', 'leaked');
      const revoked = page.getByRole('listitem').getByText('Revoked', { exact: true });
      await revoked.waitFor();
      await list.letGo();
      expect(await revoked.isVisible()).toBe(true);
    });
  });

  test('takes back no block, in the plan and in the list of owners', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    await app.createKey('acme');
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      const decide = async (verb: string) => {
        await press(page, verb);
        const question = page.getByRole('group', { name: `${verb} acme?` });
        await question.getByRole('button', { name: verb, exact: true }).click();
        await question.waitFor({ state: 'detached' });
      };
      await press(page, 'Open acme');
      await page.getByRole('button', { name: 'Block', exact: true }).waitFor();
      const plan = await holdAnswer(page, '**/tools/admin_update_owner');
      await press(page, 'Refresh');
      await plan.held;
      await decide('Block');
      await plan.letGo();
      await press(page, '← Owners');
      await page.getByText('Blocked', { exact: true }).waitFor();
      const owners = await holdAnswer(page, '**/tools/admin_list_owners');
      await press(page, 'Refresh');
      await owners.held;
      await press(page, 'Open acme');
      await decide('Unblock');
      await owners.letGo();
      await page.route('**/tools/admin_list_owners', (route) => route.abort());
      await press(page, '← Owners');
      await page.getByRole('button', { name: 'Open acme' }).waitFor();
      expect(await page.getByText('Blocked', { exact: true }).count()).toBe(0);
    });
  });

  test('adds nothing to how far an admin reads that another list has looked', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    for (let key = 0; key < 101; key += 1) await app.createKey('acme', { name: `key ${key}` });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      const soFar = page.getByText('100 found; looked through 100 keys so far', { exact: true });
      await press(page, 'All keys');
      await press(page, 'Never expire');
      await soFar.waitFor();
      const further = await holdAnswer(page, '**/tools/admin_list_keys', 'cursor');
      await press(page, 'Look further');
      await further.held;
      await press(page, 'All');
      await page.getByText('The newest 100 keys', { exact: true }).waitFor();
      await press(page, 'Never expire');
      await soFar.waitFor();
      await further.letGo();
      await press(page, 'Look further');
      await page.getByText('101 found; looked through 101 keys', { exact: true }).waitFor();
    });
  });

  test('opens no owner over what an admin has gone on to', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    const { id } = await app.createKey('acme');
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      const found = await holdAnswer(page, '**/tools/admin_list_keys', id);
      await find(page, 'Key id or fingerprint', id);
      await found.held;
      await press(page, 'All keys');
      await page.getByText('of acme').waitFor();
      await found.letGo();
      await page.getByRole('button', { name: 'Find' }).waitFor();
      expect(await page.getByRole('heading', { name: 'All keys' }).count()).toBe(1);
    });
  });
});

describeInBrowser('a refusal for now', (browser) => {
  test('says in one sentence how long to wait', async () => {
    await using app = await appForBrowser({ env: { OAUTH_DEVICE: '1', USER_RATE_LIMIT: '20/10s' } });
    await withKeysPage(browser(), app, { ...(await link(app)), quiet: true }, async ({ page }) => {
      await page.getByText('No API keys yet').waitFor();
      await page.getByRole('link', { name: 'A program asks for a key' }).click();
      await page.getByLabel('The code that the program shows').fill('BCDF-GHJK');
      const send = page.getByRole('button', { name: 'Go on' });
      for (let guess = 0; guess < 11; guess++) {
        const response = page.waitForResponse('**/device/request');
        await send.click();
        await response;
        await send.waitFor();
      }
      await alerted(page, 'Rate limit exceeded; try again in 10 minutes');
      const headers = { authorization: `Bearer ${await app.token('alice')}` };
      while ((await app.call('list_api_keys', {}, headers)).status === 200);
      await page.getByRole('button', { name: 'Cancel' }).click();
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page
        .getByRole('alert')
        .getByText(/^The list could not be refreshed\. Rate limit exceeded; try again in \d+ s$/)
        .waitFor();
    });
  });
});
