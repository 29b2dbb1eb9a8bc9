// Both widgets in the official host library, against the real server: what is revoked here is really revoked.

import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { join } from 'node:path';
import type { FrameLocator, Page } from 'playwright-core';
import stockLevels, { resources } from '../../recipes/tools/stock-levels.ts';
import { BROWSER_TEST_MS, confirm, describeInBrowser, type TakenPage, takePage } from '../../support/browser.ts';
import { childOf } from '../../support/children.ts';
import { testClock } from '../../support/clock.ts';
import { inRest } from '../../support/everything.ts';
import { bearer, createTestApp, type TestApp } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';
import type { Hosted, HostOptions } from './app-bridge-host.ts';
import { codeOf } from './preview-page.ts';

declare const show: (options: HostOptions) => Promise<void>;
declare const hosted: Hosted;

async function bundledHost(): Promise<string> {
  const built = await Bun.build({ entrypoints: [join(import.meta.dir, 'app-bridge-host.ts')], target: 'browser' });
  const [script] = built.outputs;
  if (script === undefined) throw new Error(built.logs.join('\n'));
  return script.text();
}

describeInBrowser('a widget in the official host', (browser) => {
  let app: TestApp;
  let taken: TakenPage | undefined;
  let page: Page;
  let widget: FrameLocator;
  let hostPage: Bun.Server<undefined>;
  let misdeeds: string[];

  beforeAll(async () => {
    app = await createTestApp({ clock: testClock(Date.now()) });
    const script = await bundledHost();
    hostPage = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: ({ url }) =>
        url.endsWith('/host.js')
          ? new Response(script, { headers: { 'content-type': 'text/javascript' } })
          : new Response('<!doctype html><link rel="icon" href="data:,"><script src="host.js"></script>', {
              headers: { 'content-type': 'text/html' },
            }),
    });
  }, BROWSER_TEST_MS);
  afterEach(() => taken?.[Symbol.asyncDispose]());
  afterAll(async () => {
    await hostPage.stop(true);
    await app.close();
  });

  async function open(options: Omit<HostOptions, 'mcpUrl' | 'token'>, sub: string, server = app) {
    taken = await takePage(browser());
    page = taken.page;
    misdeeds = [];
    page.on('pageerror', (error) => misdeeds.push(error.message));
    page.on('console', (message) => {
      const { url } = message.location();
      // The client asks with GET for a stream of its own; the 405 that refuses it is on the console, too.
      if (message.type() === 'error' && url !== `${app.url}/mcp`) misdeeds.push(message.text());
    });
    await page.goto(hostPage.url.href);
    const all = { ...options, mcpUrl: `${server.url}/mcp`, token: await server.token(sub) };
    await page.evaluate((given) => show(given), all);
    widget = page.frameLocator('iframe');
  }

  test('api-keys-list revokes and deletes real keys through tools/call', async () => {
    const { id, key } = await app.createKey('alice', { name: 'leaked' });
    await app.createKey('alice', { name: 'good' });
    await open({ tool: 'list_api_keys', args: {} }, 'alice');
    await widget.getByRole('button', { name: 'More about leaked' }).click();
    await confirm(widget, 'Revoke', 'leaked');
    await widget.getByText('API key revoked successfully').waitFor();
    expect((await app.useKey(key)).status).toBe(401);
    const alice = await bearer(app, 'alice');
    const listed = async () => (await app.call('list_api_keys', {}, alice)).body.keys;
    expect((await listed()).find((found: { id: string }) => found.id === id).active).toBe(false);
    await widget.getByRole('button', { name: 'More about good' }).click();
    for (const name of ['leaked', 'good']) {
      await confirm(widget, 'Delete', name);
      await widget.getByRole('button', { name: `Delete ${name}` }).waitFor({ state: 'detached' });
    }
    await widget.getByText('No API keys yet').waitFor();
    expect(await listed()).toEqual([]);
    expect(misdeeds).toEqual([]);
  });

  test('api-keys-list says whose children it lists, ends one, and offers nothing that a child can’t have', async () => {
    const { id, key } = await app.createKey('erin', { name: 'parent', scopes: ['read', 'delegate'] });
    const args = { childrenOf: id };
    await open({ tool: 'list_api_keys', args }, 'erin');
    await widget.getByRole('heading', { name: 'No keys for its programs' }).waitFor();
    await taken?.[Symbol.asyncDispose]();
    await childOf(app, key, { client_name: 'agent' });
    await open({ tool: 'list_api_keys', args }, 'erin');
    await widget.getByRole('heading', { name: 'Keys for its programs' }).waitFor();
    expect(await widget.getByRole('button', { name: 'Rotate agent' }).count()).toBe(0);
    await confirm(widget, 'Revoke', 'agent');
    await widget.getByText('API key revoked successfully').waitFor();
    const { body } = await app.call('list_api_keys', args, await bearer(app, 'erin'));
    expect(body.keys).toEqual([]);
    expect(misdeeds).toEqual([]);
  });

  const newKey = async (name: string) => {
    const box = widget.getByRole('group', { name: `New key of ${name}` });
    await box.getByRole('button', { name: 'Show key' }).click();
    const key = (await box.locator('code').textContent()) ?? '';
    await box.getByRole('button', { name: 'I have saved it' }).click();
    return key;
  };
  const rotate = async (name: string, kind: string) => {
    await widget.getByRole('button', { name: `Rotate ${name}` }).click();
    const question = widget.getByRole('group', { name: `Rotate ${name}?` });
    await question.getByRole('radio', { name: kind }).check();
    await question.getByRole('button', { name: 'Rotate' }).click();
    return question;
  };

  test('api-keys-list rotates a real key: the old one goes on, or ends at once', async () => {
    const { key: first } = await app.createKey('fay', { name: 'mine' });
    await open({ tool: 'list_api_keys', args: {} }, 'fay');
    const statuses = (...keys: string[]) => Promise.all(keys.map(async (key) => (await app.useKey(key)).status));
    await rotate('mine', 'Replace it without interruption');
    const second = await newKey('mine');
    await widget.getByText('Rotation under way').waitFor();
    expect(await statuses(first, second)).toEqual([200, 200]); // now the first runs out
    const question = await rotate('mine', 'Replace it without interruption');
    await question.getByRole('alert').getByText('The old key of the rotation before still works, until').waitFor();
    await question.getByRole('radio', { name: 'It leaked: end it now' }).check();
    await question.getByRole('button', { name: 'Try again' }).click();
    const third = await newKey('mine');
    expect(await statuses(first, second, third)).toEqual([401, 401, 200]);
    expect(await widget.locator('html').evaluate((root) => root.outerHTML)).not.toContain(third.slice(8));
    expect(misdeeds).toEqual([]);
  });

  inRest(test)('api-keys-list shows a new key with KEY_REVEAL=widget too, which no log has', async () => {
    await using server = await createTestApp({ clock: testClock(Date.now()), env: { KEY_REVEAL: 'widget' } });
    await server.createKey('hal', { name: 'unseen' });
    await open({ tool: 'list_api_keys', args: {}, declaresWidgets: true }, 'hal', server);
    await rotate('unseen', 'Replace it without interruption');
    const key = await newKey('unseen');
    expect((await server.useKey(key)).status).toBe(200);
    expect(await server.logText()).not.toContain(key.slice(8));
    expect(misdeeds).toEqual([]);
  });

  inRest(test)('api-key-created shows a real rotation, and what becomes of the old key', async () => {
    const { id, key: old } = await app.createKey('ida', { name: 'worn' });
    await open({ tool: 'rotate_api_key', args: { keyId: id, overlapHours: 1 } }, 'ida');
    await widget.getByText('API key rotated', { exact: true }).waitFor();
    await widget.getByText('It works on, and ends 1 hour after the new one is first used.').waitFor();
    await widget.getByRole('button', { name: 'Show key' }).click();
    const key = (await codeOf(widget, 'API key').textContent()) ?? '';
    for (const accepted of [key, old]) expect((await app.useKey(accepted)).status).toBe(200);
    expect(misdeeds).toEqual([]);
  });

  test('api-keys-list shows the failure when the user token has expired meanwhile', async () => {
    await app.createKey('bob', { name: 'mine' });
    await open({ tool: 'list_api_keys', args: {} }, 'bob');
    await widget.getByRole('button', { name: 'Rotate mine' }).waitFor();
    app.clock.advance(2 * 3_600_000);
    await widget.getByRole('button', { name: 'More about mine' }).click();
    await confirm(widget, 'Revoke', 'mine');
    await widget.getByRole('alert').getByText('The user token has expired').waitFor();
    expect(misdeeds).toEqual([]);
  });

  test('a widget of one’s own shows the result, follows the theme, tells its height, and calls its tool', async () => {
    await using shop = await createTestApp({ toolFiles: [{ file: 'stock-levels.ts', make: stockLevels, resources }] });
    const { key } = await shop.createKey('alice');
    await open({ tool: 'stock_levels', args: {} }, 'alice', { ...shop, token: async () => key });
    await widget.getByText('cups: 7').waitFor();
    const scheme = () => widget.locator('html').evaluate((root) => root.style.colorScheme);
    expect(await scheme()).toBe('light');
    await page.evaluate(() => hosted.setTheme('dark'));
    await waitFor(async () => (await scheme()) === 'dark');
    expect((await page.evaluate(() => hosted.sizes)).at(-1)?.height).toBeGreaterThan(50);
    await shop.call(
      'revoke_api_key',
      { keyId: (await shop.call('whoami', {}, { 'x-api-key': key })).body.keyId },
      await bearer(shop, 'alice'),
    );
    await widget.getByRole('button', { name: 'Look again' }).click();
    await widget
      .getByText(/Invalid or expired API key|went wrong/)
      .or(widget.getByText('Nothing to show'))
      .waitFor();
  });

  test('api-key-created shows a real key, follows the theme, and forgets the key on teardown', async () => {
    const args = { name: 'fresh', scopes: ['read'], expiresInDays: 30 };
    await open({ tool: 'create_api_key', args }, 'carol');
    await widget.getByRole('button', { name: 'Show key' }).click();
    const key = (await codeOf(widget, 'API key').textContent()) ?? '';
    expect((await app.useKey(key)).body.owner).toBe('carol');
    await page.evaluate(() => hosted.setTheme('dark'));
    await widget.locator('[data-theme=dark]').getByRole('heading').waitFor();
    const toldPx = async () => (await page.evaluate(() => hosted.sizes)).at(-1)?.height;
    const shownPx = () => widget.locator('html').evaluate((root) => root.scrollHeight);
    await waitFor(async () => (await toldPx()) === (await shownPx())); // the host is told after it has been laid out
    expect(await page.evaluate(() => hosted.teardown())).toEqual({});
    await widget.getByText('This widget is closed.').waitFor();
    expect(await widget.locator('html').evaluate((root) => root.outerHTML)).not.toContain(key.slice(8));
    expect(misdeeds).toEqual([]);
  });

  test('with KEY_REVEAL=widget the person sees a key of which neither model nor log has eight digits in a row', async () => {
    await using server = await createTestApp({ clock: testClock(Date.now()), env: { KEY_REVEAL: 'widget' } });
    const args = { name: 'unseen', scopes: ['read'] };
    await open({ tool: 'create_api_key', args, declaresWidgets: true }, 'dave', server);
    await widget.getByRole('button', { name: 'Show key' }).click();
    const key = (await codeOf(widget, 'API key').textContent()) ?? '';
    expect((await server.useKey(key)).body.owner).toBe('dave');
    const forModel = await page.evaluate(() => hosted.forModel);
    expect(forModel).toContain('The widget shows the key to the user');
    const seen = forModel + (await server.logText());
    for (let at = 8; at + 8 <= key.length; at += 1) expect(seen).not.toContain(key.slice(at, at + 8));
    await widget.getByText('Save this key now - it will not be shown again').waitFor();
    expect(misdeeds).toEqual([]);
  });
});
