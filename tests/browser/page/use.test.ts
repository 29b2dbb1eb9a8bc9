// What one does on the page /keys, from a new key to its end: with the settings that it shows, in two tabs, with the
// keyboard alone, and with names that mislead.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { Page } from 'playwright-core';
import { confirm, describeInBrowser } from '../../support/browser.ts';
import { run } from '../../support/command.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { ADMINS, bearer, listedKeys, type TestApp } from '../../support/test-app.ts';
import { appForBrowser, follow, historyOf, link, type OpenPage, paste, sentBy, withKeysPage } from './keys-page.ts';

async function create(page: Page, name: string, scopes = 'read') {
  const opener = page.getByRole('button', { name: 'Create a key' });
  await opener.or(page.getByRole('button', { name: 'Create key' })).waitFor(); // the page may open the form by itself
  if (!(await page.getByRole('textbox', { name: 'Name' }).isVisible())) await opener.click();
  await page.getByRole('textbox', { name: 'Name' }).fill(name);
  await page.getByRole('textbox', { name: /scopes/i }).fill(scopes);
  await page.getByRole('button', { name: 'Create key' }).click();
}

/** What a button of the new key puts on the clipboard. */
async function copied({ page }: OpenPage, name: string): Promise<string> {
  await page.evaluate(() => navigator.clipboard.writeText(''));
  const button = await page.getByRole('button', { name, exact: true }).elementHandle(); // its name changes with a copy
  await button?.click();
  await button?.waitForSelector('text=Copied'); // in this button: another may still say so
  return page.evaluate(() => navigator.clipboard.readText());
}

const statusOf = async (app: TestApp, key: string) => (await app.useKey(key)).status;

describeInBrowser('a new key', (browser) => {
  test('works with each of the settings that are shown around it, until it is rotated and revoked', async () => {
    await using app = await appForBrowser();
    await withKeysPage(browser(), app, await link(app, 'alice'), async (open) => {
      const { page } = open;
      await create(page, 'billing export');
      const key = await copied(open, 'Copy');

      const settings = JSON.parse(await copied(open, 'Copy for MCP clients'));
      const { type, url, headers } = settings.mcpServers.keys;
      expect(type).toBe('http');
      const client = new Client({ name: 'test', version: '1.0.0' });
      const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
      await client.connect(transport as unknown as Transport); // its types allow undefined where ours don't
      const { structuredContent } = await client.callTool({ name: 'whoami', arguments: {} });
      expect(structuredContent).toMatchObject({ name: 'billing export', owner: 'alice' });
      await client.close();

      await page.getByText('Claude on the web').click();
      await page.getByText(`A custom connector with the URL ${app.url}/mcp`).waitFor();
      expect(await copied(open, 'Copy for Claude on the web, desktop and phone')).toBe(key);

      await page.getByText('Claude Code').click();
      const command = await copied(open, 'Copy for Claude Code');
      const words = await run(['sh'], {
        cwd: temporaryFolder(),
        stdin: `claude() { printf '%s\\n' "$@"; }\n${command}\n`,
      });
      expect(words.stdout.trim().split('\n')).toEqual([
        ...['mcp', 'add', '--transport', 'http', 'keys', `${app.url}/mcp`],
        ...['--header', `X-API-Key: ${key}`],
      ]);

      if (Bun.which('curl') !== null) {
        await page.getByText('curl, to try it').click();
        const { stdout } = await run(['sh'], {
          cwd: temporaryFolder(),
          stdin: await copied(open, 'Copy for curl, to try it'),
        });
        expect(JSON.parse(stdout)).toMatchObject({ name: 'billing export', owner: 'alice' });
      }

      await page.getByRole('button', { name: 'I have saved it' }).click();
      await page.getByRole('button', { name: 'Rotate billing export' }).click();
      const question = page.getByRole('group', { name: 'Rotate billing export?' });
      await question.getByLabel('It leaked: end it now').check();
      await question.getByLabel('Expires').selectOption('in 30 days');
      await question.getByRole('button', { name: 'Rotate' }).click();
      await page.getByRole('listitem').getByText('in 30 days').first().waitFor();
      const box = page.getByRole('group', { name: 'New key of billing export' });
      await box.getByRole('button', { name: 'Show key' }).click();
      const rotated = (await box.getByRole('group', { name: 'API key' }).locator('code').textContent()) ?? '';
      expect([await statusOf(app, key), await statusOf(app, rotated)]).toEqual([401, 200]);
      await box.getByRole('button', { name: 'I have saved it' }).click();
      await page.getByRole('button', { name: 'More about billing export' }).click();
      await confirm(page, 'Revoke', 'billing export');
      await page.getByText('API key revoked successfully').waitFor();
      expect(await statusOf(app, rotated)).toBe(401);
    });
    expect(await app.logText()).not.toContain('sk_test_');
  });

  test('has settings that stay where they are on the screen when the person opens them', async () => {
    await using app = await appForBrowser();
    const small = { ...(await link(app)), viewport: { width: 390, height: 500 } };
    await withKeysPage(browser(), app, small, async ({ page }) => {
      await create(page, 'billing export');
      const settings = page.getByText('Claude Code', { exact: true });
      const top = () => settings.evaluate((summary) => summary.getBoundingClientRect().top);
      await settings.evaluate((summary) => scrollBy(0, summary.getBoundingClientRect().top - 100));
      const before = await top();
      await settings.press('Enter');
      await page.getByRole('button', { name: 'Copy for Claude Code' }).waitFor();
      expect(await top()).toBe(before);
    });
  });

  test('has no settings around it if it is for another server, which this one would refuse', async () => {
    const resource = 'https://other.example/mcp';
    await using app = await appForBrowser({ env: { OAUTH_REDIRECTS: 'loopback', OAUTH_RESOURCES: resource } });
    await app.createKey('alice', { name: 'elsewhere', resource });
    await app.createKey('alice', { name: 'here', resource: app.url });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      const settings = page.getByText('Or paste it with ready-made settings around it.');
      await confirm(page, 'Rotate', 'elsewhere');
      await page.getByRole('group', { name: 'New key of elsewhere' }).waitFor();
      expect(await settings.count()).toBe(0);
      await confirm(page, 'Rotate', 'here');
      await settings.waitFor();
    });
  });

  test('gets what the form asks for: chosen scopes, an expiry, a limit and a quota, which the list shows', async () => {
    await using app = await appForBrowser({ env: { KEY_SCOPES: 'read write admin', KEY_MAX_DAYS: '60' } });
    const name = '\u{1f511}'.repeat(150); // 150 characters, of 200
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      await page.getByRole('textbox', { name: 'Name' }).fill(name);
      await page.getByLabel('write').check();
      expect(await page.getByLabel('Expires').locator('option').allTextContents()).toEqual([
        'in 7 days',
        'in 30 days',
        'in 60 days',
      ]);
      await page.getByLabel('Expires').selectOption('in 7 days');
      await page.getByText('Limits', { exact: true }).click();
      await page.getByLabel('Rate limit', { exact: true }).fill('0');
      await page.getByLabel('Quota', { exact: true }).fill('500');
      await page.getByText('Limits', { exact: true }).click(); // closed again
      await page.getByRole('button', { name: 'Create key' }).click();
      await page.getByLabel('Rate limit', { exact: true }).fill('10'); // it is shown what is wrong
      await page.getByRole('button', { name: 'Create key' }).click();
      await page.getByRole('heading', { name }).waitFor();
      await page.getByText('Limit 10 a minute').waitFor();
      await page.getByText('Quota 500 a day').waitFor();
    });
    const keys = await listedKeys(app, 'alice');
    expect(Math.round((keys[0].expiresAt - app.clock.nowMs()) / 86_400_000)).toBe(7);
    expect(keys).toMatchObject([
      { name, scopes: ['write'], rateLimit: { requests: 10, window: '1m' }, quota: { requests: 500, period: 'day' } },
    ]);
  });
});

describeInBrowser('the form of a new key', (browser) => {
  test('leads to the scopes before a key is made that may do nothing, by the button as by Enter', async () => {
    await using app = await appForBrowser({ env: { KEY_SCOPES: 'read write' } });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      const focused = () => page.evaluate(() => (document.activeElement as HTMLInputElement).value);
      const send = page.getByRole('button', { name: 'Create key' });
      await page.getByRole('textbox', { name: 'Name' }).fill('for nothing');
      await send.dblclick(); // whose second click makes none, either
      await page.getByText('It may do nothing yet.').waitFor();
      expect(await listedKeys(app, 'alice')).toEqual([]);
      await page.getByRole('textbox', { name: 'Name' }).press('Enter');
      expect(await focused()).toBe('read');
      expect(await listedKeys(app, 'alice')).toEqual([]);
      await send.click(); // all the same
      await page.getByRole('heading', { name: 'for nothing' }).waitFor();
      expect(await listedKeys(app, 'alice')).toMatchObject([{ scopes: [] }]);
    });
  });

  test('and an edit stay while an input method takes the keys: Enter and Escape end its word, not the form', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'old' });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page, context }) => {
      const session = await context.newCDPSession(page);
      const name = page.getByRole('textbox', { name: 'Name' });
      /** Types a word as with an input method, which gets this key before the word is finished. */
      const compose = async (text: string, key: string) => {
        await name.focus();
        await session.send('Input.imeSetComposition', { text, selectionStart: text.length, selectionEnd: text.length });
        await session.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', key, windowsVirtualKeyCode: 229 });
        await session.send('Input.insertText', { text });
      };
      await page.getByRole('button', { name: 'Create a key' }).click();
      await compose('すし', 'Enter');
      expect(await name.evaluate((field) => field === document.activeElement)).toBe(true);
      await page.getByRole('button', { name: 'Cancel' }).click();
      await page.getByRole('button', { name: 'More about old' }).click();
      await page.getByRole('button', { name: 'Rename: old' }).click();
      await compose('さけ', 'Escape');
      expect(await name.inputValue()).toBe('さけ');
      await name.press('Enter');
      await page.getByRole('button', { name: 'More about さけ' }).waitFor();
    });
  });

  test('is not offered where no more keys can be made: the button says so', async () => {
    await using app = await appForBrowser({ env: { OWNER_KEYS: '2' } });
    await app.createKey('alice', { name: 'one' });
    const two = await app.createKey('alice', { name: 'two' });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      const button = page.getByRole('button', { name: 'Create a key (2 of 2 keys)', disabled: true });
      await button.waitFor();
      await button.click({ force: true });
      await page.getByRole('status').getByText('No more can be made').waitFor();
      await app.call('delete_api_key', { keyId: two.id }, await bearer(app, 'alice'));
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByRole('button', { name: 'Create a key', exact: true }).click();
      await page.getByRole('heading', { name: 'New key' }).waitFor();
    });
  });

  test('says who is signed in and for whom, by the names that the token has, too', async () => {
    await using app = await appForBrowser({ env: { JWT_OWNER_CLAIM: 'org_id' } });
    const claims = { name: 'Alice A.', org_id: 'org_2x', org_name: 'Acme' };
    await withKeysPage(browser(), app, await link(app, 'user_1y', claims), async ({ page }) => {
      await page.getByText('Signed in as user_1y (Alice A.), for org_2x (Acme)').waitFor();
    });
  });
});

describeInBrowser('a key that one has', (browser) => {
  test('is found by pasting, whatever its form is and by whatever means it comes into the field', async () => {
    await using app = await appForBrowser();
    const keys = ['acme.Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5', `ü${'a'.repeat(300)}`, 'b'.repeat(20)];
    const lines = keys.slice(0, 1).map((key, index) => ({
      ...{ userId: 'alice', name: `from before ${index}`, scopes: ['read'], foreign: true },
      keyHash: new Bun.CryptoHasher('sha256').update(key).digest('hex'),
    }));
    const file = join(app.folder, 'keys.jsonl');
    await Bun.write(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    await app.keys('import', file);
    await app.createKey('alice', { name: 'c'.repeat(20) });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      const sent = sentBy(page);
      await page.getByText('2 keys', { exact: true }).waitFor();
      const search = page.getByRole('searchbox');
      const ways: Record<string, (text: string) => Promise<unknown>> = {
        paste: (text) => paste(page, search, text),
        keyboard: (text) => page.keyboard.insertText(text), // as that of a phone does
        filled: (text) => search.fill(text),
      };
      for (const put of Object.values(ways)) {
        await search.focus();
        await put(keys[0] ?? '');
        await page.getByText(/^It is “.+”, active\./).waitFor();
        expect(await search.inputValue()).toBe('');
        await page.getByRole('button', { name: 'More about from before 0', expanded: true }).waitFor();
        for (const unknown of keys.slice(1)) {
          await search.focus();
          await put(unknown);
          await page.getByText('None of your keys').waitFor();
          expect(await search.inputValue()).toBe('');
        }
      }
      await search.fill('c'.repeat(20)); // which is the name of one
      await page.getByText('1 of 2 keys').waitFor();
      await search.fill('');
      await search.pressSequentially('typed by hand-0123456789');
      await page.getByText('No key matches.').waitFor();
      expect(sent.filter((text) => keys.some((key) => text.includes(key)))).toEqual([]);
    });
  });

  test('says that a secret has ended, where somebody who had the old one of a rotation has ended that alone', async () => {
    await using app = await appForBrowser();
    const { key, id: keyId } = await app.createKey('alice', { name: 'leaked' });
    await app.call('rotate_api_key', { keyId }, await bearer(app, 'alice'));
    await app.useKey((await app.call('rotate_api_key', { keyId }, await bearer(app, 'alice'))).body.key);
    await fetch(`${app.url}/revoke`, { method: 'POST', body: new URLSearchParams({ token: key }) });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      await page.getByRole('button', { name: 'More about leaked' }).click();
      await page.getByText(/^Secret ended by somebody who had the key/).waitFor();
      expect(await page.getByText(/^Revoked/).count()).toBe(0);
    });
  });

  test('stays in sight when it is changed so that the search or the state shown leaves it out, until these change', async () => {
    await using app = await appForBrowser();
    for (const name of ['shop', 'shop too']) await app.createKey('alice', { name });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      const search = page.getByRole('searchbox');
      await search.fill('shop too');
      await page.getByText('1 of 2 keys').waitFor();
      await page.getByRole('button', { name: 'More about shop too' }).click();
      await page.getByRole('button', { name: 'Rename: shop too' }).click();
      await page.getByRole('textbox', { name: 'Name' }).fill('backup');
      const buttons = page.getByRole('list', { name: 'Keys' }).getByRole('button');
      expect(await buttons.allTextContents()).toEqual(['Save', 'Cancel']); // while an edit is open
      await page.keyboard.press('Enter');
      const row = page.getByRole('listitem').filter({ hasText: 'backup' });
      await row.getByText(/^Renamed by alice/).waitFor();
      expect(await page.evaluate(() => document.activeElement?.ariaLabel)).toBe('Rename: backup');
      await page.getByRole('button', { name: 'End sooner: backup' }).click();
      expect(await page.getByLabel('It ends').inputValue()).toBe('365'); // what ends the least
      expect(await buttons.allTextContents()).toEqual(['Save', 'Cancel']);
      await page.getByLabel('It ends').selectOption('in 7 days');
      await page.getByRole('button', { name: 'Save' }).click();
      await row.getByText(/^End changed by alice/).waitFor();
      await row.getByText('in 7 days').waitFor();
      await confirm(page, 'Rotate', 'backup');
      await row.getByText(/^Rotated by alice/).waitFor();
      await confirm(page, 'Revoke', 'backup');
      await row.getByText(/^Revoked by alice/).waitFor();
      await search.fill('shop');
      await row.waitFor({ state: 'detached' });
      await page.getByText('1 of 2 keys').waitFor();
    });
  });

  test('can be ended sooner where it can, and a form that is open stays whatever the list shows', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'for an hour', expiresInDays: 1 / 24 });
    await app.createKey('alice', { name: 'for two days', expiresInDays: 2 });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      await page.getByRole('button', { name: 'More about for an hour' }).click();
      await page.getByRole('button', { name: 'Rename: for an hour' }).waitFor();
      expect(await page.getByRole('button', { name: 'End sooner: for an hour' }).count()).toBe(0);
      await page.getByRole('button', { name: 'More about for two days' }).click();
      await page.getByRole('button', { name: 'End sooner: for two days' }).click();
      expect(await page.getByLabel('It ends').locator('option').allTextContents()).toEqual(['in a day']);
      await page.getByRole('button', { name: 'Rename: for an hour' }).click();
      await page.keyboard.type('half typed');
      await page.getByRole('searchbox').fill('nothing');
      expect(await page.getByRole('textbox', { name: 'Name' }).inputValue()).toBe('half typed');
      await page.getByLabel('It ends').waitFor();
      await page.getByRole('button', { name: 'Cancel' }).first().click();
      await page.getByRole('button', { name: 'Cancel' }).click();
      await page.getByText('No key matches.').waitFor();
    });
  });

  test('has one button at rest and "…"; twelve take 1,700 px of a phone, and a row that opens moves nothing of itself', async () => {
    await using app = await appForBrowser();
    for (let index = 0; index < 12; index++)
      await app.createKey('alice', { name: `partner ${index}`, scopes: ['read', 'write'], expiresInDays: 90 });
    const phone = { viewport: { width: 390, height: 844 } };
    await withKeysPage(browser(), app, { ...(await link(app, 'alice')), ...phone }, async ({ page }) => {
      await page.getByText('12 keys', { exact: true }).waitFor();
      const list = page.getByRole('list', { name: 'Keys' });
      expect(await list.getByRole('button').count()).toBe(24);
      expect(await page.evaluate(() => document.documentElement.scrollHeight)).toBeLessThanOrEqual(1700);
      const placed = () =>
        list
          .getByRole('button', { name: /partner 11$/ })
          .evaluateAll((all) => all.slice(0, 1).map((one) => one.getBoundingClientRect().y));
      const before = await placed();
      await page.getByRole('button', { name: 'More about partner 11' }).click();
      await page.getByText(/^Made by alice/).waitFor();
      expect(await placed()).toEqual(before);
    });
  });
});

describeInBrowser('names that mislead', (browser) => {
  test('stay text, each isolated from the text around it', async () => {
    await using app = await appForBrowser();
    const name = '<img src=x onerror="alert(1)"> \u202efdp';
    const sub = '\u2067\u202e<script>alert(2)</script>';
    await app.createKey(sub, { name });
    await withKeysPage(browser(), app, await link(app, sub), async ({ page }) => {
      await page.getByText('1 key', { exact: true }).waitFor();
      expect(await page.getByText('Signed in as').locator('bdi').textContent()).toBe(sub);
      expect(await page.locator('.name bdi').textContent()).toBe(name);
      await create(page, name, '<script>');
      await page.getByText('<script>', { exact: true }).first().waitFor();
      expect(
        await page
          .getByRole('group', { name: /^New key of/ })
          .getByRole('heading')
          .textContent(),
      ).toContain(name);
      expect(await page.locator('img, script:not([type])').count()).toBe(0);
    });
  });

  test.each([
    ['of 255 letters', 'W'.repeat(255)],
    ['that turns the text around, never closed', '\u202e\u2067alice'],
  ])('%s stand in their own place, at 320 px too', async (_, owner) => {
    await using app = await appForBrowser({ env: ADMINS });
    await app.createKey(owner, { name: owner.slice(0, 200) });
    const narrow = { viewport: { width: 320, height: 900 } };
    const admin = await link(app, owner, { roles: 'keys-admin' });
    await withKeysPage(browser(), app, { ...narrow, ...admin }, async ({ page }) => {
      await page.getByRole('button', { name: 'All keys' }).click();
      await page.getByLabel('Owner, exactly').fill(owner);
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: `Keys of ${owner}` }).waitFor();
      await page.getByRole('button', { name: 'Revoke all keys' }).click();
      await page.getByRole('group', { name: `Revoke all of ${owner}?` }).waitFor();
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
      // Each of the names is isolated.
      const found = await page.getByText(owner.slice(0, 200)).evaluateAll((all) => all.map(({ tagName }) => tagName));
      expect([...new Set(found)]).toEqual(['BDI']);
    });
  });
});

describeInBrowser('two tabs', (browser) => {
  test('have sign-ins of their own, and one sees what the other did when it is refreshed', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'shared' });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page, context }) => {
      const other = await context.newPage();
      await other.goto(`${app.url}/keys`);
      await other.getByRole('heading', { name: 'Sign in' }).waitFor(); // the first tab's token is its own
      await follow(other, await link(app, 'alice'));
      await other.getByRole('button', { name: 'More about shared' }).click();
      await confirm(other, 'Delete', 'shared');
      await other.getByText('No API keys yet').waitFor();
      await page.getByText('1 key', { exact: true }).waitFor();
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByText('No API keys yet').waitFor();
      await other.close();
    });
  });

  test('a link for another person takes nothing over from the one before', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'of alice' });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      await page.getByRole('button', { name: 'Create a key' }).click();
      await page.getByRole('textbox', { name: 'Name' }).fill('typed by alice');
      await follow(page, await link(app, 'bob'));
      await page.getByRole('button', { name: 'Sign in as bob' }).click();
      await page.getByText('Signed in as bob').waitFor();
      await page.getByText('No API keys yet').waitFor();
      expect(await page.getByRole('textbox', { name: 'Name' }).inputValue()).toBe('');
    });
  });
});

describeInBrowser('where no credential may be sent', (browser) => {
  const ELSEWHERE = { PUBLIC_URL: 'https://keys.example' };
  const PRODUCTION = { NODE_ENV: 'production', PUBLIC_URL: 'https://keys.example' };
  test.each([
    [
      'at another address than PUBLIC_URL',
      'localhost',
      ELSEWHERE,
      'has its page at another address',
      'https://keys.example/keys',
    ],
    ['over plain HTTP in production', '127.0.0.1', PRODUCTION, 'This page needs HTTPS', 'https://keys.example/keys'],
  ])('%s the page says where to go, drops the token of the link, and sends nothing', async (_, host, env, said, to) => {
    await using app = await appForBrowser({ env });
    const there = { url: app.url.replace('127.0.0.1', host) };
    const at = await link(app, 'alice');
    await withKeysPage(browser(), there, at, async ({ page, requests }) => {
      await page.getByText(said).waitFor();
      expect(await page.getByRole('link').getAttribute('href')).toBe(to ?? `${app.url}/keys`);
      expect(await page.getByRole('button').count()).toBe(0);
      await follow(page, at); // in the open tab, too
      await page.waitForFunction(() => location.hash === '');
      expect(page.url()).toBe(`${there.url}/keys`);
      expect((await historyOf(page)).join(' ')).not.toContain('token');
      expect(requests).toEqual([`GET ${there.url}/keys`]);
    });
  });

  test('the page does not send people to where HTTPS is missing, too', async () => {
    await using app = await appForBrowser({ env: { NODE_ENV: 'production' } });
    await withKeysPage(browser(), app, {}, async ({ page }) => {
      await page.getByText('Ask whoever runs this server for its address.').waitFor();
      expect(await page.getByRole('link').count()).toBe(0);
    });
  });
});

describeInBrowser('with the keyboard and a screen reader alone', (browser) => {
  /** What has the focus; fails if nothing has, or if one doesn't see where it is. */
  async function focused(page: Page): Promise<string> {
    const { label, isSeen } = await page.evaluate(() => {
      const { activeElement: element } = document;
      if (element === null || element === document.body) return { label: 'nothing', isSeen: false };
      const { outlineStyle, outlineWidth } = getComputedStyle(element);
      const { top, bottom } = element.getBoundingClientRect();
      const hasOutline = outlineStyle !== 'none' && Number.parseFloat(outlineWidth) > 0;
      const isControl = element instanceof HTMLElement && element.tabIndex >= 0; // what only scripts focus has no ring
      const field = element instanceof HTMLInputElement ? element.name : element.id;
      return {
        label: element.ariaLabel ?? (element.textContent?.trim() || field),
        isSeen: (hasOutline || !isControl) && top >= 0 && bottom <= innerHeight,
      };
    });
    expect({ label, isSeen }).toEqual({ label, isSeen: true });
    return label;
  }

  /** Presses Tab until an element has the focus. */
  async function reach(page: Page, name: string): Promise<void> {
    for (let tabs = 0; tabs < 60; tabs++) {
      if ((await focused(page)) === name) return;
      await page.keyboard.press('Tab');
    }
    throw new Error(`${name} was not reached`);
  }
  const press = async (page: Page, name: string) => {
    await reach(page, name);
    await page.keyboard.press('Enter');
  };

  test('a key is read out, and one is created, copied, rotated, revoked and deleted; the focus is always seen and never lost', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'another', scopes: ['read', 'write'] });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      await page.getByText('1 key', { exact: true }).waitFor();
      expect(await page.getByRole('list', { name: 'Keys' }).ariaSnapshot()).toBe(`- list "Keys":
  - listitem:
    - text: another
    - list "Scopes":
      - listitem: read
      - listitem: write
    - text: Active Created
    - time: just now
    - text: Never expires Not used yet
    - button "Rotate another": Rotate
    - button "More about another": …`);
      const begin = page.getByRole('button', { name: 'Create a key' });
      const ring = () =>
        begin.evaluate((button) => button === document.activeElement && getComputedStyle(button).outlineWidth);
      expect(await ring()).toBe('0px'); // nobody has done anything
      await page.keyboard.press('Shift');
      expect(await focused(page)).toBe('Create a key');
      await page.keyboard.press('Enter');
      expect(await focused(page)).toBe('name');
      await page.keyboard.type('made by hand');
      await page.keyboard.press('Enter'); // which makes no key without scopes
      await page.getByText('It may do nothing yet.').waitFor();
      await page.keyboard.press('Space');
      await press(page, 'Create key');
      await page.getByRole('heading', { name: 'made by hand' }).waitFor();
      expect(await focused(page)).toBe('New key of made by hand');
      await press(page, 'Show key');
      expect(await focused(page)).toBe('Hide key');
      const key = (await page.getByRole('group', { name: 'API key' }).locator('code').textContent()) ?? '';
      await press(page, 'Copy');
      await page.getByText('Copied. Paste it where it is kept safe.').waitFor();
      expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(key);
      await press(page, 'I have saved it');
      expect(await focused(page)).toBe('Create a key');
      await press(page, 'Rotate made by hand');
      await page.keyboard.press('ArrowDown'); // it leaked
      await press(page, 'Rotate');
      await page.getByRole('group', { name: 'New key of made by hand' }).waitFor();
      expect(await focused(page)).toBe('Copy');
      await press(page, 'I have saved it');
      expect(await focused(page)).toBe('More about made by hand');
      await page.keyboard.press('Enter');
      await press(page, 'Revoke made by hand');
      expect(await focused(page)).toBe('Cancel');
      await page.keyboard.press('Shift+Tab');
      await press(page, 'Revoke');
      await page.getByText('API key revoked successfully').waitFor();
      expect(await focused(page)).toBe('Delete made by hand');
      await page.keyboard.press('Enter');
      await page.keyboard.press('Shift+Tab');
      await press(page, 'Delete');
      await page.getByText('1 key', { exact: true }).waitFor();
      expect(await focused(page)).toBe('More about another');
    });
  });

  test('a key is found by pasting, renamed and narrowed, and the list asked for anew; the focus comes back', async () => {
    await using app = await appForBrowser();
    const { key } = await app.createKey('alice', { name: 'in my .env', scopes: ['read', 'write'] });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      await page.getByText('Not used yet').waitFor();
      expect((await app.useKey(key)).status).toBe(200);
      await page.getByRole('button', { name: 'Refresh' }).press('Enter');
      await page.getByText('Last used').waitFor();
      expect(await focused(page)).toBe('Refresh');
      await paste(page, page.getByRole('searchbox'), key);
      await page.getByText(/^It is “.+”, active\./).waitFor();
      expect(await focused(page)).toBe('Details of in my .env');
      await page.keyboard.press('Enter'); // by habit, after the key
      await page.getByText(/^Made by alice/).waitFor();
      expect(await focused(page)).toBe('Details of in my .env');
      await page.keyboard.press('Tab');
      expect(await focused(page)).toBe('Rename: in my .env');
      await page.keyboard.press('Enter');
      expect(await focused(page)).toBe('Name');
      await page.keyboard.press('Control+A');
      await page.keyboard.type('of the shop');
      await page.keyboard.press('Enter');
      await page.getByText(/^Renamed by alice/).waitFor();
      expect(await focused(page)).toBe('Rename: of the shop');
      await press(page, 'Fewer scopes: of the shop');
      expect(await focused(page)).toBe('scope');
      await press(page, 'Save');
      await page.getByRole('alert').getByText('None is unticked yet.').waitFor();
      for (const scope of ['read', 'write']) await page.getByRole('checkbox', { name: scope }).uncheck();
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('alert').getByText('The last scope stays.').waitFor();
      await page.getByRole('checkbox', { name: 'write' }).press('Space');
      await press(page, 'Save');
      await page.getByText(/^Scopes changed by alice/).waitFor();
      expect(await focused(page)).toBe('Fewer scopes: of the shop');
      expect(await page.getByRole('list', { name: 'Scopes' }).getByRole('listitem').allTextContents()).toEqual([
        'write',
      ]);
      expect((await app.useKey(key)).status).toBe(403);
      const said = page.getByRole('list', { name: 'History' }).getByRole('listitem');
      expect((await said.allTextContents()).map((text) => text.split(',')[0])).toEqual([
        'Scopes changed by alice',
        'Renamed by alice',
        'Made by alice',
      ]);
      await page.getByRole('button', { name: 'More about of the shop' }).press('Enter'); // closed again
      expect(await focused(page)).toBe('More about of the shop');
    });
  });
});
