// What the widgets do with hosts that are slow, silent, wrong or not theirs.

import { expect, test } from 'bun:test';
import type { Frame } from 'playwright-core';
import { describeInBrowser, takePage } from '../../support/browser.ts';
import { waitFor } from '../../support/wait-for.ts';
import { type BareHost, INITIALIZED, listOf as keys, toolResult as result, withBareHost } from './bare-host.ts';
import { widgetText } from './lab/lab.ts';

const says = (frame: Frame, sentence: string) => frame.getByText(sentence).waitFor();

describeInBrowser('a widget', (browser) => {
  /** Waits until the host has heard the widget's response to a request. */
  const untilHeard = ({ page }: BareHost, responseTo: string) =>
    page.waitForFunction(
      (wanted) => (globalThis as unknown as { heard: { id?: unknown }[] }).heard.some(({ id }) => id === wanted),
      responseTo,
    );

  test('greets its host first, says initialized before anything else, and listens to its host alone', async () => {
    await withBareHost(browser(), 'api-keys-list', async (host) => {
      const { page, frame, heard, post, initialize } = host;
      expect(await heard()).toEqual([
        {
          jsonrpc: '2.0',
          id: 1,
          method: 'ui/initialize',
          params: {
            appInfo: { name: 'api-keys-list', version: '1.0.0' },
            appCapabilities: {},
            protocolVersion: '2026-01-26',
          },
        },
      ]);
      await initialize();
      await post(result(keys('number one')));
      await says(frame, 'number one');
      await waitFor(async () => (await heard()).length > 2); // its size follows once it has been laid out
      expect((await heard())[1]).toEqual({ jsonrpc: '2.0', method: 'ui/notifications/initialized', params: {} });
      expect((await heard())[2]).toMatchObject({ method: 'ui/notifications/size-changed' });

      const forged = result(keys('forged'));
      await frame.evaluate((message) => window.postMessage(message, '*'), forged);
      const other = page.frames()[2];
      await other?.evaluate((message) => parent.frames[0]?.postMessage(message, '*'), forged);
      await post({ jsonrpc: '2.0', id: 'after', method: 'ping' });
      await untilHeard(host, 'after');
      expect(await frame.locator('.name').allTextContents()).toEqual(['number one']);
    });
  });

  test('follows the system if the host names no theme, and moves nothing', async () => {
    await withBareHost(browser(), 'api-key-created', async ({ page, frame, post, initialize }) => {
      await page.emulateMedia({ colorScheme: 'dark' });
      await initialize();
      await post(result({ key: 'sk_test_1', name: 'number one', scopes: [], expiresAt: null }));
      await says(frame, 'number one');
      const look = await frame.evaluate(() => {
        const moving = document.getAnimations().length;
        return [getComputedStyle(document.body).backgroundColor, moving];
      });
      expect(look).toEqual(['rgb(31, 31, 33)', 0]);
    });
  });

  test('says so when its host does not respond, and goes on if it does later', async () => {
    const silent = async ({ page, frame, post, initialize }: BareHost) => {
      await page.clock.runFor(5100);
      await says(frame, 'The chat app around this widget does not answer.');
      await initialize();
      await post(result(keys('late')));
      await says(frame, 'late');
    };
    await withBareHost(browser(), 'api-keys-list', silent, { isStopped: true });
  });

  test('says so when its host refuses it', async () => {
    await withBareHost(browser(), 'api-key-created', async ({ frame, post }) => {
      await post({ jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'no' } });
      await says(frame, 'The chat app around this widget refused to show it.');
    });
  });

  test('responds to ping, refuses what it does not know, and gives its room back when it is torn down', async () => {
    await withBareHost(browser(), 'api-keys-list', async (host) => {
      const { page, frame, heard, post, initialize } = host;
      await initialize();
      await post(result(keys('mine')));
      await frame.locator('.name').waitFor();
      await post({ jsonrpc: '2.0', id: 'a', method: 'ping' });
      await post({ jsonrpc: '2.0', id: 'b', method: 'tools/list', params: {} });
      await post({ jsonrpc: '2.0', id: 'c', method: 'ui/resource-teardown', params: {} });
      await says(frame, 'This widget is closed.');
      await page.setViewportSize({ width: 300, height: 300 }); // of which it says nothing
      await untilHeard(host, 'c');
      expect((await heard()).filter(({ id }) => typeof id === 'string')).toEqual([
        { jsonrpc: '2.0', id: 'a', result: {} },
        { jsonrpc: '2.0', id: 'b', error: { code: -32601, message: 'Method not found' } },
        { jsonrpc: '2.0', id: 'c', result: {} },
      ]);
      const [size, response] = (await heard()).slice(-2);
      expect(size).toMatchObject({ method: 'ui/notifications/size-changed', params: { height: 0 } });
      expect(response).toMatchObject({ id: 'c' });
    });
  });

  const malformed: readonly unknown[] = [
    null,
    'text',
    42,
    [],
    [result(keys('batched'))],
    {},
    { jsonrpc: '1.0', method: 'ui/notifications/tool-result', params: { structuredContent: keys('old') } },
    { jsonrpc: '2.0' },
    { jsonrpc: '2.0', id: 99, result: {} },
    { jsonrpc: '2.0', id: null, result: null },
    { jsonrpc: '2.0', method: 7 },
    { jsonrpc: '2.0', method: '__proto__' },
    { jsonrpc: '2.0', method: 'constructor', params: 'x' },
    { jsonrpc: '2.0', method: 'ui/notifications/host-context-changed', params: null },
    {
      jsonrpc: '2.0',
      method: 'ui/notifications/host-context-changed',
      params: { theme: 'x"y', locale: 'not a locale', timeZone: 'Nowhere/Land', styles: { variables: [1] } },
    },
    {
      jsonrpc: '2.0',
      method: 'ui/notifications/host-context-changed',
      params: {
        styles: { variables: { '--color-x': 5, display: 'none', '--evil': 'red' } },
        containerDimensions: 'tall',
      },
    },
    { jsonrpc: '2.0', method: 'ui/notifications/tool-input', params: { arguments: 'x' } },
    { jsonrpc: '2.0', method: 'ui/notifications/tool-input' },
  ];

  test('ignores what is no message', async () => {
    for (const widget of ['api-key-created', 'api-keys-list']) {
      await withBareHost(browser(), widget, async ({ frame, post, initialize }) => {
        await post(...malformed);
        await initialize({ ...INITIALIZED, hostCapabilities: null, hostContext: 'none' });
        await post(...malformed);
        expect(await frame.locator('bdi').count()).toBe(0);
        const key = { key: 'sk_test_1', name: 'fine', scopes: [], expiresAt: 0 };
        await post(result({ ...keys('fine'), ...key }));
        await says(frame, 'fine');
        expect(await frame.evaluate(() => document.documentElement.style.display)).toBe('');
      });
    }
  });

  const noAnswers: readonly (readonly [unknown, string])[] = [
    [{ jsonrpc: '2.0', method: 'ui/notifications/tool-result' }, 'The answer could not be read.'],
    [result({ keys: 'many', key: 5 }), 'The answer could not be read.'],
    [result(undefined, { isError: true }), 'The answer could not be read.'],
    [result(keys('x'), { isError: true, content: [null, 1] }), 'The answer could not be read.'],
    [
      result(undefined, { isError: true, content: [{ type: 'text', text: 'Invalid <b>user</b> token' }] }),
      'Invalid <b>user</b> token',
    ],
    [
      { jsonrpc: '2.0', method: 'ui/notifications/tool-cancelled', params: { reason: 'user' } },
      'The call was cancelled, so there is nothing to show.',
    ],
  ];

  test.each(['api-key-created', 'api-keys-list'])(
    '%s shows a sentence in place of a result that can not be read',
    async (widget) => {
      await withBareHost(browser(), widget, async ({ frame, post, initialize }) => {
        await initialize();
        for (const [message, sentence] of noAnswers) {
          await post(result({ ...keys('fine'), key: 'sk_test_1', name: 'fine', scopes: [], expiresAt: null }));
          await frame.getByText('fine').waitFor();
          await post(message);
          await says(frame, sentence);
          expect(await frame.getByText('fine').isVisible()).toBe(false);
        }
      });
    },
  );

  test('shows a list with entries and times that make no sense as far as it can, and one that comes as text alone', async () => {
    await withBareHost(browser(), 'api-keys-list', async ({ frame, post, initialize }) => {
      await initialize();
      const odd = { id: 'odd', name: 7, scopes: [null, 3], active: 'yes', createdAt: 1e300, expiresAt: '5' };
      await post(
        result({ keys: [null, 'x', {}, { id: 3 }, odd, { ...odd, id: 'old', active: true, createdAt: -8.64e15 }] }),
      );
      await says(frame, '2 keys');
      expect(await frame.locator('.state').allTextContents()).toEqual(['Active', 'Revoked']);
      const content = [{ type: 'text', text: JSON.stringify(keys('from text')) }];
      await post({ jsonrpc: '2.0', method: 'ui/notifications/tool-result', params: { content } });
      await says(frame, 'from text');
    });
  });

  test('says that it needs a host when it is opened on its own', async () => {
    await using taken = await takePage(browser());
    const { page } = taken;
    for (const widget of ['api-key-created', 'api-keys-list']) {
      await page.setContent(await widgetText(widget));
      await page.getByText('it has no host here').waitFor();
    }
  });
});
