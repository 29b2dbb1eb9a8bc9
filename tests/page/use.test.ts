// What one does on the page /keys, from a new key to its end: with the settings that it shows, in two tabs, with the
// keyboard alone, and with names that mislead.

import { expect, test } from 'bun:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { Page } from 'playwright-core';
import { describeInBrowser } from '../support/browser.ts';
import { run } from '../support/command.ts';
import { temporaryFolder } from '../support/folder.ts';
import { readResponse, type TestApp } from '../support/test-app.ts';
import { appForBrowser, type OpenPage, withKeysPage } from './keys-page.ts';

const link = async (app: TestApp, sub: string, claims = {}) => ({ at: `#token=${await app.token(sub, claims)}` });

async function create(page: Page, name: string, scopes = 'read') {
  const opener = page.getByRole('button', { name: 'Create a key' });
  await opener.waitFor(); // once it is there, so is the form, if the page opens it by itself
  if (!(await page.getByLabel('Name').isVisible())) await opener.click();
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Scopes').fill(scopes);
  await page.getByRole('button', { name: 'Create key' }).click();
}

/** What a button of the new key puts on the clipboard. */
async function copied({ page, created }: OpenPage, name: string): Promise<string> {
  await page.evaluate(() => navigator.clipboard.writeText(''));
  await created.getByRole('button', { name, exact: true }).click();
  await created.getByText('Copied. Paste it where it is kept safe.').first().waitFor();
  return page.evaluate(() => navigator.clipboard.readText());
}

const statusOf = async (app: TestApp, key: string) => (await app.call('get_data', {}, { 'x-api-key': key })).status;

describeInBrowser('a new key', (browser) => {
  test('works with each of the settings that are shown around it, until it is rotated and revoked', async () => {
    await using app = await appForBrowser();
    await withKeysPage(browser(), app, await link(app, 'alice'), async (open) => {
      const { page, created, list } = open;
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

      await created.getByText('Claude Code').click();
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
        await created.getByText('curl, to try it').click();
        const { stdout } = await run(['sh'], {
          cwd: temporaryFolder(),
          stdin: await copied(open, 'Copy for curl, to try it'),
        });
        expect(JSON.parse(stdout)).toMatchObject({ name: 'billing export', owner: 'alice' });
      }

      await page.getByRole('button', { name: 'I have saved it' }).click();
      await list.getByRole('button', { name: 'Rotate billing export' }).click();
      await list.getByLabel('It leaked: end it now').check();
      await list.getByRole('group', { name: 'Rotate billing export?' }).getByRole('button', { name: 'Rotate' }).click();
      const box = list.getByRole('group', { name: 'New key of billing export' });
      await box.getByRole('button', { name: 'Show key' }).click();
      const rotated = (await box.locator('code').textContent()) ?? '';
      expect([await statusOf(app, key), await statusOf(app, rotated)]).toEqual([401, 200]);
      await box.getByRole('button', { name: 'I have saved it' }).click();
      await list.getByRole('button', { name: 'Revoke billing export' }).click();
      await list.getByRole('group', { name: 'Revoke billing export?' }).getByRole('button', { name: 'Revoke' }).click();
      await list.getByText('API key revoked successfully').waitFor();
      expect(await statusOf(app, rotated)).toBe(401);
    });
    expect(await app.logText()).not.toContain('sk_test_');
  });

  test('gets what the form asks for: chosen scopes, an expiry, and limits where the tool takes them', async () => {
    await using app = await appForBrowser({ env: { KEY_SCOPES: 'read write admin', KEY_MAX_DAYS: '60' } });
    const { body: document } = await readResponse(await fetch(`${app.url}/openapi.json`));
    const { schema } = document.paths['/tools/create_api_key'].post.requestBody.content['application/json'];
    const takesLimits = 'rateLimit' in schema.properties;
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page, created }) => {
      await page.getByLabel('Name').fill('chosen');
      await page.getByLabel('write').check();
      expect(await page.getByLabel('Expires').locator('option').allTextContents()).toEqual([
        'in 7 days',
        'in 30 days',
        'in 60 days',
      ]);
      await page.getByLabel('Expires').selectOption('in 7 days');
      expect(await page.getByText('Limits', { exact: true }).count()).toBe(takesLimits ? 1 : 0);
      if (takesLimits) {
        await page.getByText('Limits', { exact: true }).click();
        await page.getByLabel('Rate limit', { exact: true }).fill('10');
        await page.getByLabel('Quota', { exact: true }).fill('500');
      }
      await page.getByRole('button', { name: 'Create key' }).click();
      await created.getByRole('heading', { name: 'chosen' }).waitFor();
    });
    const headers = { authorization: `Bearer ${await app.token('alice')}` };
    const { body } = await app.call('list_api_keys', {}, headers);
    const days = (body.keys[0].expiresAt - app.clock.nowMs()) / 86_400_000;
    expect(Math.round(days)).toBe(7);
    expect(body.keys).toMatchObject([
      {
        name: 'chosen',
        scopes: ['write'],
        ...(takesLimits && {
          rateLimit: { requests: 10, window: '1m' },
          quota: { requests: 500, period: 'day' },
        }),
      },
    ]);
  });
});

describeInBrowser('names that mislead', (browser) => {
  test('stay text, each isolated from the text around it', async () => {
    await using app = await appForBrowser();
    const name = '<img src=x onerror="alert(1)"> \u202efdp';
    const sub = '\u2067\u202e<script>alert(2)</script>';
    await app.createKey(sub, { name });
    await withKeysPage(browser(), app, await link(app, sub), async ({ page, list, created }) => {
      await list.getByText('1 key', { exact: true }).waitFor();
      expect(await page.locator('#user bdi').textContent()).toBe(sub);
      expect(await list.locator('.name bdi').textContent()).toBe(name);
      await create(page, name, '<script>');
      await created.getByText('<script>').waitFor();
      expect(await created.locator('#name bdi').textContent()).toBe(name);
      expect(await page.locator('img, script:not([type])').count()).toBe(0);
    });
  });
});

describeInBrowser('two tabs', (browser) => {
  test('have sign-ins of their own, and one sees what the other did when it is refreshed', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'shared' });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page, list, context }) => {
      const other = await context.newPage();
      await other.goto(`${app.url}/keys`);
      await other.getByRole('heading', { name: 'Sign in' }).waitFor(); // the first tab's token is its own
      await other.evaluate((hash) => location.assign(hash), `#token=${await app.token('alice')}`);
      const otherList = other.frameLocator('iframe[name=listed]');
      await otherList.getByRole('button', { name: 'Delete shared' }).click();
      await otherList.getByRole('group', { name: 'Delete shared?' }).getByRole('button', { name: 'Delete' }).click();
      await otherList.getByText('No API keys yet').waitFor();
      await list.getByText('1 key', { exact: true }).waitFor();
      await page.getByRole('button', { name: 'Refresh' }).click();
      await list.getByText('No API keys yet').waitFor();
      await other.close();
    });
  });

  test('a link for another person takes nothing over from the one before', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'of alice' });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page, list }) => {
      await page.getByRole('button', { name: 'Create a key' }).click();
      await page.getByLabel('Name').fill('typed by alice');
      await page.evaluate((hash) => location.assign(hash), `#token=${await app.token('bob')}`);
      await page.getByText('Signed in as bob').waitFor();
      await list.getByText('No API keys yet').waitFor();
      expect(await page.getByLabel('Name').inputValue()).toBe('');
    });
  });
});

describeInBrowser('where no credential may be sent', (browser) => {
  test.each([
    ['at another address than PUBLIC_URL', 'localhost', {}, 'has its page at another address'],
    ['over plain HTTP in production', '127.0.0.1', { NODE_ENV: 'production' }, 'This page needs HTTPS'],
  ])('%s the page says where to go, drops the token of the link, and sends nothing', async (_, host, env, said) => {
    await using app = await appForBrowser({ env });
    const there = { url: app.url.replace('127.0.0.1', host) };
    await withKeysPage(browser(), there, await link(app, 'alice'), async ({ page, requests }) => {
      await page.getByText(said).waitFor();
      expect(await page.getByRole('link').getAttribute('href')).toBe(`${app.url}/keys`);
      expect(await page.getByRole('button').count()).toBe(0);
      expect(page.url()).toBe(`${there.url}/keys`);
      expect(requests).toEqual([`GET ${there.url}/keys`]);
    });
  });
});

describeInBrowser('with the keyboard alone', (browser) => {
  /** What has the focus, in the page or in a frame; fails if nothing has. */
  async function focused(page: Page): Promise<string> {
    for (const frame of page.frames()) {
      const label = await frame.evaluate(() => {
        const { activeElement: element } = document;
        if (element === null || element === document.body || element.tagName === 'IFRAME') return null;
        return element.ariaLabel ?? (element.textContent?.trim() || element.id);
      });
      if (label !== null && (await frame.evaluate(() => document.hasFocus()))) return label;
    }
    throw new Error('nothing has the focus');
  }

  test('a key is created and deleted, and the focus is never lost', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'another' });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page, created, list }) => {
      const until = async (name: string) => {
        for (let tabs = 0; tabs < 40; tabs++) {
          if ((await focused(page)) === name) return;
          await page.keyboard.press('Tab');
        }
        throw new Error(`${name} was not reached`);
      };
      await list.getByText('1 key', { exact: true }).waitFor();
      expect(await focused(page)).toBe('Create a key');
      await page.keyboard.press('Enter');
      expect(await focused(page)).toBe('name');
      await page.keyboard.type('made by hand');
      await page.keyboard.press('Enter');
      await created.getByRole('heading', { name: 'made by hand' }).waitFor();
      expect(await focused(page)).toBe('New key');
      await until('Show key');
      await page.keyboard.press('Enter');
      await created.getByRole('button', { name: 'Hide key' }).waitFor();
      await until('I have saved it');
      await page.keyboard.press('Enter');
      expect(await focused(page)).toBe('Create a key');
      await until('Delete made by hand');
      await page.keyboard.press('Enter');
      await page.keyboard.press('Shift+Tab');
      expect(await focused(page)).toBe('Delete');
      await page.keyboard.press('Enter');
      await list.getByText('1 key', { exact: true }).waitFor();
      expect(await focused(page)).toBe('Delete another');
    });
  });
});
