// The widget that shows a new key, in a real browser.

import { expect, test } from 'bun:test';
import type { FrameLocator, Page } from 'playwright-core';
import { describeInBrowser } from '../../support/browser.ts';
import { waitFor } from '../../support/wait-for.ts';
import { toolResult, withBareHost } from './bare-host.ts';
import { isInMemory } from './heap.ts';
import { stopClock, type WithPreview, withPreview } from './preview-page.ts';

const KEY = `sk_test_${'5a3b1ec0'.repeat(8)}`;
const button = (widget: FrameLocator, name: string) => widget.getByRole('button', { name, exact: true });
const html = (widget: FrameLocator) => widget.locator('html').evaluate((root) => root.outerHTML);
const clipboard = (page: Page) => page.evaluate(() => navigator.clipboard.readText());

describeInBrowser('the widget api-key-created', (browser) => {
  const open = withPreview(browser);
  const preview: WithPreview = (query, use) => open(`widget=api-key-created&${query}`, use);

  test('shows name, scopes, expiry in words and date, and the warning', async () => {
    await preview('theme=light', async ({ created }) => {
      await created.getByRole('heading', { name: 'billing export' }).waitFor();
      expect(await created.getByRole('list', { name: 'Scopes' }).getByRole('listitem').allTextContents()).toEqual([
        'read:orders',
        'read:products',
      ]);
      const expires = created.locator('#expires');
      expect(await expires.textContent()).toMatch(/^in 30 days, on \w+ \d+, 20\d\d$/);
      expect(await expires.locator('time').getAttribute('title')).toMatch(/\d:\d\d:\d\d/);
      await created.getByText('Save this key now - it will not be shown again').waitFor();
    });
  });

  test('says Never for a key that does not expire, and none for no scopes', async () => {
    await preview('data=empty', async ({ created }) => {
      await created.getByRole('heading', { name: 'billing export' }).waitFor();
      expect(await created.locator('#expires').textContent()).toBe('Never');
      expect(await created.locator('#scopes').textContent()).toBe('none');
    });
  });

  test('also says the hour of an expiry that is near', async () => {
    await withBareHost(browser(), 'api-key-created', async ({ frame, post, initialize, misdeeds }) => {
      await initialize({ hostContext: { locale: 'en-US', timeZone: 'UTC' } });
      const expiresAt = Date.now() + 3_600_000;
      await post(toolResult({ key: KEY, name: 'brief', scopes: [], expiresAt }));
      await frame.getByText('brief').waitFor();
      expect(await frame.locator('#expires').textContent()).toMatch(
        /^in 1 hour, on \w+ \d+, 20\d\d at \d+:\d\d\s[AP]M$/,
      );
      expect(misdeeds).toEqual([]);
    });
  });

  test('has the key nowhere in the page until it is asked for, and no more once hidden', async () => {
    await preview('', async ({ created }) => {
      await button(created, 'Show key').waitFor();
      expect(await html(created)).not.toContain(KEY.slice(-8));
      await button(created, 'Show key').click();
      expect(await created.locator('#key-text').textContent()).toBe(KEY);
      expect(await created.locator('#header-text').textContent()).toBe(`X-API-Key: ${KEY}`);
      await button(created, 'Hide key').click();
      expect(await html(created)).not.toContain(KEY.slice(-8));
    });
  });

  test('copies the key, and the header, without showing them', async () => {
    await preview('', async ({ page, created }) => {
      await button(created, 'Copy').waitFor();
      await stopClock(page); // what says that it was copied goes after a while
      await button(created, 'Copy').click();
      await created.getByText('Copied. Paste it where it is kept safe.').waitFor();
      expect(await clipboard(page)).toBe(KEY);
      await button(created, 'Copy header').click();
      await created.locator('#copy-header').getByText('Copied').waitFor();
      expect(await clipboard(page)).toBe(`X-API-Key: ${KEY}`);
      expect(await html(created)).not.toContain(KEY.slice(-8));
    });
  });

  test('selects the whole key if the clipboard is refused, and says which keys copy it', async () => {
    await preview('', async ({ created, frame }) => {
      await button(created, 'Copy').waitFor();
      const inside = await frame('api-key-created');
      await inside.evaluate(() => {
        Object.defineProperty(navigator, 'clipboard', { value: undefined });
      });
      await button(created, 'Copy').click();
      await created.getByText('press Ctrl+C').waitFor();
      expect(await inside.evaluate(() => String(getSelection()).trim())).toBe(KEY);
    });
  });

  test('keeps saying so after an earlier copy was allowed', async () => {
    await preview('', async ({ page, created, frame }) => {
      await button(created, 'Copy').waitFor(); // the host has answered, which takes a timer
      await stopClock(page);
      await button(created, 'Copy').click();
      await created.locator('#copy').getByText('Copied').waitFor();
      const inside = await frame('api-key-created');
      await inside.evaluate(() => {
        Object.defineProperty(navigator, 'clipboard', { value: undefined });
      });
      await button(created, 'Copy header').click();
      const beside = created.locator('.next').getByText('press Ctrl+C');
      await beside.waitFor();
      await page.clock.runFor(5000);
      await created.locator('#copy').getByText('Copy', { exact: true }).waitFor();
      expect(await beside.isVisible()).toBe(true);
    });
  });

  test('holds nothing of the key once torn down, in the page or in memory, and responds no more', async () => {
    await preview('', async ({ page, created, frame }) => {
      await button(created, 'Show key').click();
      await stopClock(page);
      await button(created, 'Copy').click();
      await created.locator('#copy').getByText('Copied').waitFor(); // until then the browser has a copy, too
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
      expect(await created.locator('#made').isVisible()).toBe(false);
    });
  });

  test('shows a key that reached the widget alone as any other', async () => {
    await preview('data=widget', async ({ page, created }) => {
      await created.getByText('Save this key now - it will not be shown again').waitFor();
      await button(created, 'Show key').click();
      expect(await created.locator('#key-text').textContent()).toBe(KEY);
      await stopClock(page);
      await button(created, 'Copy header').click();
      await created.locator('#copy-header').getByText('Copied').waitFor();
      expect(await clipboard(page)).toBe(`X-API-Key: ${KEY}`);
    });
  });

  test('shows for whom a key is encrypted, and the ciphertext to copy, without a header to send it in', async () => {
    await preview('data=encrypted', async ({ page, created }) => {
      await created.getByText('API key created, encrypted for the X25519 key 3p7bfXt9…').waitFor();
      const shown = await created.getByRole('group', { name: 'Encrypted API key' }).locator('code').textContent();
      expect(shown?.split('.')).toHaveLength(5);
      expect((await created.getByRole('button').allTextContents()).map((text) => text.trim())).toEqual(['Copy']);
      await created.getByText('Next: bring it to whoever holds the private key.').waitFor();
      await stopClock(page);
      await button(created, 'Copy').click();
      await created.locator('#copy').getByText('Copied').waitFor();
      expect(await clipboard(page)).toBe(shown ?? '');
    });
  });

  test.each([
    ['rotated', 'It works on, and ends 24 hours after the new one is first used.'],
    ['leaked', 'It has ended. Programs that still send it are refused.'],
  ])('says what becomes of the old key, of one that was %s', async (data, fate) => {
    await preview(`data=${data}`, async ({ created }) => {
      await created.getByText('API key rotated', { exact: true }).waitFor();
      expect(await created.locator('dt, dd#old').allTextContents()).toEqual(['Scopes', 'Expires', 'Old key', fate]);
      await button(created, 'Show key').click();
      expect(await created.locator('#key-text').textContent()).toBe(KEY);
    });
  });

  test('says nothing of an old key when there was none, or nothing that can be read, and 1 hour of 1', async () => {
    await withBareHost(browser(), 'api-key-created', async ({ frame, post, initialize, misdeeds }) => {
      await initialize();
      const made = { key: KEY, name: 'n', scopes: [], expiresAt: null };
      const until = (overlapHours: unknown) => ({ previous: { state: 'until_first_use', overlapHours } });
      await post(toolResult({ ...made, ...until(1) }));
      await frame.getByText('It works on, and ends 1 hour after the new one is first used.').waitFor();
      for (const odd of [{}, { previous: null }, { previous: { state: '<b>' } }, until('many'), until(-1)]) {
        await post(toolResult({ ...made, ...until(1) }), toolResult({ ...made, ...odd, name: JSON.stringify(odd) }));
        await frame.getByRole('heading', { name: JSON.stringify(odd), exact: true }).waitFor();
        expect(await frame.getByText('Old key').isVisible()).toBe(false);
      }
      expect(misdeeds).toEqual([]);
    });
  });

  test('says of a call under way that it makes a key, or rotates one', async () => {
    await withBareHost(browser(), 'api-key-created', async ({ frame, post, initialize, misdeeds }) => {
      const toolInput = (args: object) => ({
        jsonrpc: '2.0',
        method: 'ui/notifications/tool-input',
        params: { arguments: args },
      });
      await initialize();
      await post(toolInput({ name: 'new', scopes: [] }));
      await frame.getByText('Creating “new”…').waitFor();
      await post(toolInput({ keyId: 'a' }));
      await frame.getByText('Rotating the key…').waitFor();
      expect(misdeeds).toEqual([]);
    });
  });

  test('takes no ciphertext for a key, when one follows the other', async () => {
    await withBareHost(browser(), 'api-key-created', async ({ frame, post, initialize, misdeeds }) => {
      await initialize();
      const made = { name: 'n', scopes: [], expiresAt: null };
      await post(toolResult({ ...made, encryptedKey: 'a..b.c.d' }));
      await frame.getByText('encrypted for the public key that was sent').waitFor();
      await post(toolResult({ ...made, key: KEY }));
      await frame.getByRole('button', { name: 'Show key' }).waitFor();
      expect(await frame.locator('#done').textContent()).toBe('API key created');
      expect(await frame.locator('#key-text').textContent()).not.toContain(KEY.slice(-8));
      expect(await frame.locator('#open').isVisible()).toBe(false);
      await post(toolResult({ ...made, key: KEY, previous: { state: 'until_first_use', overlapHours: 24 } }));
      await frame.getByText('API key rotated', { exact: true }).waitFor();
      for (const nothing of [{}, { key: '' }, { key: 7, encryptedKey: null }]) {
        await post(toolResult({ ...made, ...nothing }));
        await frame.getByText('No key to show.').waitFor();
        expect(await frame.locator('#made').isVisible()).toBe(false);
        await post(toolResult({ ...made, key: KEY }));
        await frame.locator('#made').waitFor();
      }
      expect(misdeeds).toEqual([]);
    });
  });

  test('says in a sentence that there is no key when the tool failed', async () => {
    await preview('data=error', async ({ created }) => {
      await created.getByText('No key to show. The key store is out of reach; try again').waitFor();
      expect(await created.getByRole('button').count()).toBe(0);
    });
  });

  test('is used with the keyboard alone, with a visible focus', async () => {
    await preview('', async ({ page, created, frame }) => {
      await button(created, 'Show key').waitFor();
      await stopClock(page);
      await page.locator('nav a').last().focus();
      await page.keyboard.press('Tab');
      await created.locator('#show:focus').waitFor(); // from the process of the page into that of the widget
      const inside = await frame('api-key-created');
      const focused = () =>
        inside.evaluate(() => [
          document.activeElement?.id,
          getComputedStyle(document.activeElement as Element).outlineStyle,
        ]);
      expect(await focused()).toEqual(['show', 'solid']);
      await page.keyboard.press('Enter');
      expect(await created.locator('#key-text').textContent()).toBe(KEY);
      await page.keyboard.press('Tab');
      expect(await focused()).toEqual(['copy', 'solid']);
      await page.keyboard.press('Space');
      await created.locator('#copy').getByText('Copied').waitFor();
      await page.keyboard.press('Tab');
      expect(await focused()).toEqual(['copy-header', 'solid']);
    });
  });
});
