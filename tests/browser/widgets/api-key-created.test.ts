// The widget that shows a new key, in a real browser.

import { expect, test } from 'bun:test';
import type { FrameLocator, Page } from 'playwright-core';
import { describeInBrowser, isolatingBrowser, stopClock } from '../../support/browser.ts';
import { waitFor } from '../../support/wait-for.ts';
import { type BareHost, toolResult, withBareHost } from './bare-host.ts';
import { isInMemory } from './heap.ts';
import { codeOf, factOf, focused, type WithPreview, withPreview } from './preview-page.ts';

const KEY = `sk_test_${'5a3b1ec0'.repeat(8)}`;
const WARNING = 'Save this key now - it will not be shown again';
const button = (widget: FrameLocator, name: string) => widget.getByRole('button', { name, exact: true });
const keyBox = (widget: FrameLocator) => widget.getByRole('group', { name: 'API key', exact: true });
const header = (widget: FrameLocator) => widget.getByRole('group', { name: 'Request header' });
const html = (widget: FrameLocator) => widget.locator('html').evaluate((root) => root.outerHTML);
const clipboard = (page: Page) => page.evaluate(() => navigator.clipboard.readText());

describeInBrowser('the widget api-key-created', (browser) => {
  const open = withPreview(browser);
  const preview: WithPreview = (query, use) => open(`widget=api-key-created&${query}`, use);

  test('shows name, scopes, expiry and warning; the key is in the page while it is asked for, and copied without', async () => {
    await preview('', async ({ page, created }) => {
      await created.getByRole('heading', { name: 'billing export' }).waitFor();
      expect(await created.getByRole('list', { name: 'Scopes' }).getByRole('listitem').allTextContents()).toEqual([
        'read:orders',
        'read:products',
      ]);
      const expires = factOf(created, 'Expires');
      expect(await expires.textContent()).toMatch(/^in 30 days, on \w+ \d+, 20\d\d$/);
      expect(await expires.locator('time').getAttribute('title')).toMatch(/\d:\d\d:\d\d/);
      await created.getByText(WARNING).waitFor();
      const spoken = await created.locator('body').ariaSnapshot();
      expect(spoken.match(/store it where/g)).toEqual(['store it where']);

      expect(await html(created)).not.toContain(KEY.slice(-8));
      await button(created, 'Show key').click();
      expect(await codeOf(created, 'API key').textContent()).toBe(KEY);
      expect(await codeOf(created, 'Request header').textContent()).toBe(`X-API-Key: ${KEY}`);
      await button(created, 'Hide key').click();
      expect(await html(created)).not.toContain(KEY.slice(-8));

      await stopClock(page); // what says that it was copied goes after a while
      await button(created, 'Copy').click();
      await created.getByText('Copied. Paste it where it is kept safe.').waitFor();
      expect(await clipboard(page)).toBe(KEY);
      await button(created, 'Copy header').click();
      await header(created).getByText('Copied', { exact: true }).waitFor();
      expect(await clipboard(page)).toBe(`X-API-Key: ${KEY}`);
      expect(await html(created)).not.toContain(KEY.slice(-8));
    });
  });

  test('selects what is to be copied if the clipboard is refused, at first or later, and says which keys copy it', async () => {
    await preview('', async ({ page, created, frame }) => {
      await button(created, 'Copy').waitFor(); // the host has answered, which takes a timer
      await stopClock(page);
      await button(created, 'Copy').click();
      await keyBox(created).getByText('Copied', { exact: true }).waitFor();
      const inside = await frame('api-key-created');
      await inside.evaluate(() => {
        Object.defineProperty(navigator, 'clipboard', { value: undefined });
      });
      await button(created, 'Copy header').click();
      const beside = header(created).getByText('press Ctrl+C');
      await beside.waitFor();
      await page.clock.runFor(5000);
      expect(await beside.isVisible()).toBe(true);
      await keyBox(created).getByText('Copy', { exact: true }).click();
      await keyBox(created).getByText('press Ctrl+C').waitFor();
      expect(await inside.evaluate(() => String(getSelection()).trim())).toBe(KEY);
    });
  });

  const alone = withPreview(isolatingBrowser);
  test('holds nothing of the key once torn down, in the page or in memory, and responds no more', async () => {
    await alone('widget=api-key-created', async ({ page, created, frame }) => {
      await button(created, 'Show key').click();
      await stopClock(page);
      await button(created, 'Copy').click();
      await keyBox(created).getByText('Copied', { exact: true }).waitFor(); // until then the browser has a copy, too
      await page.clock.resume();
      const inside = await frame('api-key-created');
      const memory = await page.context().newCDPSession(inside);
      await waitFor(() => isInMemory(memory, KEY)); // the look finds what is there
      await page.getByRole('button', { name: 'Tear down' }).click();
      await created.getByText('This widget is closed.').waitFor();
      await page.getByText('response to #teardown-api-key-created').waitFor();
      expect(await html(created)).not.toContain(KEY.slice(-8));
      expect(await isInMemory(memory, KEY.slice(-32))).toBe(false);
      await page.evaluate((key) => {
        const result = { content: [], structuredContent: { key, name: 'late', scopes: [], expiresAt: null } };
        const message = { jsonrpc: '2.0', method: 'ui/notifications/tool-result', params: result };
        document.querySelector('iframe')?.contentWindow?.postMessage(message, '*');
      }, KEY);
      await inside.evaluate(() => new Promise((resolve) => setTimeout(resolve)));
      expect(await created.getByRole('heading').count()).toBe(0);
    });
  });

  const made = { key: KEY, name: 'n', scopes: [], expiresAt: null };
  const withHost = (use: (host: BareHost) => Promise<void>) =>
    withBareHost(browser(), 'api-key-created', async (host) => {
      await host.initialize({ hostContext: { locale: 'en-US', timeZone: 'UTC' } });
      await use(host);
    });

  test('says of a call under way, and of a key, whether it is made or rotated', async () => {
    await withHost(async ({ frame, post }) => {
      const toolInput = (args: object) => ({
        jsonrpc: '2.0',
        method: 'ui/notifications/tool-input',
        params: { arguments: args },
      });
      await post(toolInput({ name: 'new', scopes: [] }));
      await frame.getByText('Creating “new”…').waitFor();
      await post(toolInput({ keyId: 'a' }));
      await frame.getByText('Rotating the key…').waitFor();
      await post(toolResult(made));
      await frame.getByText('API key created', { exact: true }).waitFor();
      expect(await codeOf(frame, 'API key').textContent()).not.toContain(KEY.slice(-8));
      await post(toolResult({ ...made, previous: { state: 'until_first_use', overlapHours: 24 } }));
      await frame.getByText('API key rotated', { exact: true }).waitFor();
    });
  });

  test('shows what there is of a key: no end, the hour of a near one, no scopes, itself for the widget alone, or none', async () => {
    await withHost(async ({ frame, post }) => {
      await post(toolResult(made));
      await frame.getByRole('heading', { name: 'n' }).waitFor();
      expect(await factOf(frame, 'Expires').textContent()).toBe('Never');
      expect(await factOf(frame, 'Scopes').textContent()).toBe('no scopes');
      await post(toolResult({ ...made, name: 'brief', expiresAt: Date.now() + 3_600_000 }));
      await frame.getByText('brief').waitFor();
      expect(await factOf(frame, 'Expires').textContent()).toMatch(
        /^in 1 hour, on \w+ \d+, 20\d\d at \d+:\d\d\s[AP]M$/,
      );
      for (const nothing of [{}, { key: '' }, { key: 7, encryptedKey: 'a..b.c.d' }]) {
        await post(toolResult({ ...made, key: undefined, ...nothing }));
        await frame.getByText('No key to show.').waitFor();
        expect(await frame.getByRole('heading').count()).toBe(0);
        await post(toolResult(made));
        await frame.getByRole('heading', { name: 'n' }).waitFor();
      }
      const text = 'The key store is out of reach; try again';
      await post(toolResult(undefined, { isError: true, content: [{ type: 'text', text }] }));
      await frame.getByText(`No key to show. ${text}`).waitFor();
      expect(await frame.getByRole('button').count()).toBe(0);
      const forWidget = { 'mcp-key-server/widget': { key: KEY, warning: WARNING } };
      await post(toolResult({ ...made, key: undefined, warning: 'You cannot read it' }, { _meta: forWidget }));
      await frame.getByText(WARNING).waitFor();
      await frame.getByRole('button', { name: 'Show key' }).click();
      expect(await codeOf(frame, 'API key').textContent()).toBe(KEY);
      expect(await codeOf(frame, 'Request header').textContent()).toBe(`X-API-Key: ${KEY}`);
    });
  });

  test('says what becomes of the old key, and nothing when there was none, or nothing that can be read', async () => {
    await withHost(async ({ frame, post }) => {
      const until = (overlapHours: unknown) => ({ previous: { state: 'until_first_use', overlapHours } });
      for (const [previous, fate] of [
        [until(24), 'It works on, and ends 24 hours after the new one is first used.'],
        [{ previous: { state: 'ended', overlapHours: 0 } }, 'It has ended. Programs that still send it are refused.'],
        [until(1), 'It works on, and ends 1 hour after the new one is first used.'],
      ] as const) {
        await post(toolResult({ ...made, ...previous, name: fate }));
        await frame.getByRole('heading', { name: fate }).waitFor();
        expect(await factOf(frame, 'Old key').textContent()).toBe(fate);
      }
      for (const odd of [{}, { previous: null }, { previous: { state: '<b>' } }, until('many'), until(-1)]) {
        await post(toolResult({ ...made, ...until(1) }), toolResult({ ...made, ...odd, name: JSON.stringify(odd) }));
        await frame.getByRole('heading', { name: JSON.stringify(odd), exact: true }).waitFor();
        expect(await frame.getByText('Old key').isVisible()).toBe(false);
      }
    });
  });

  test('is used with the keyboard alone, with a visible focus', async () => {
    await preview('', async ({ page, created, frame }) => {
      await button(created, 'Show key').waitFor();
      await stopClock(page);
      await page.locator('nav button').last().focus();
      await page.keyboard.press('Tab');
      await button(created, 'Show key').and(created.locator(':focus')).waitFor(); // from the process of the page
      const inside = await frame('api-key-created');
      expect(await focused(inside)).toEqual(['Show key', 'solid']);
      await page.keyboard.press('Enter');
      expect(await codeOf(created, 'API key').textContent()).toBe(KEY);
      await page.keyboard.press('Tab');
      expect(await focused(inside)).toEqual(['Copy', 'solid']);
      await page.keyboard.press('Space');
      await keyBox(created).getByText('Copied', { exact: true }).waitFor();
      await page.keyboard.press('Tab');
      expect(await focused(inside)).toEqual(['Copy header', 'solid']);
    });
  });
});
