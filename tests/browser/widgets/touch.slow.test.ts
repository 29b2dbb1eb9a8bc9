// The widgets used by touch, on a phone.

import { expect, test } from 'bun:test';
import type { Browser } from 'playwright-core';
import { describeInBrowser } from '../../support/browser.ts';
import { type BareHost, listOf, toolResult, withBareHost } from './bare-host.ts';

const TARGET_PX_MIN = 40;
const ZOOMED_BELOW_PX = 16; // iOS zooms into a field with smaller text, and stays there

const PHONE = { isMobile: true, hasTouch: true, viewport: { width: 390, height: 844 } };
const scopes = ['read', 'write', 'read:orders', 'write:orders', 'admin'];
const keys = listOf(...'12345678').keys.map((key) => ({ ...key, scopes }));

const onPhone = (browser: Browser, widget: string, shown: object, use: (host: BareHost) => Promise<void>) =>
  withBareHost(
    browser,
    widget,
    async (host) => {
      await host.initialize({ hostCapabilities: { serverTools: {} } });
      await host.post(toolResult(shown));
      await host.frame.locator('main').waitFor();
      await use(host);
      expect(host.misdeeds).toEqual([]);
    },
    false,
    PHONE,
  );

describeInBrowser('on a phone', (browser) => {
  const created = { key: 'sk_test_1', name: 'fine', scopes: [...scopes, ...scopes], expiresAt: null };

  test.each([
    ['api-key-created', created],
    ['api-keys-list', { keys }],
  ] as const)('%s has targets as large as a fingertip, and fields that no phone zooms into', async (widget, shown) => {
    await onPhone(browser(), widget, shown, async ({ frame }) => {
      const small = await frame.evaluate(
        ([heightPx, textPx]) =>
          Array.from(document.querySelectorAll<HTMLElement>('main button, main input, main select, main summary'))
            .filter((target) => target.checkVisibility())
            .filter(
              (target) =>
                Math.round(target.getBoundingClientRect().height) < heightPx ||
                (target.matches('input, select') && Number.parseFloat(getComputedStyle(target).fontSize) < textPx),
            )
            .map((target) => target.outerHTML),
        [TARGET_PX_MIN, ZOOMED_BELOW_PX] as const,
      );
      expect(small).toEqual([]);
    });
  });

  test('a refused clipboard is told with the gesture that copies there', async () => {
    await onPhone(browser(), 'api-key-created', created, async ({ frame }) => {
      await frame.getByRole('button', { name: 'Copy', exact: true }).click();
      await frame.getByText('It is selected: touch and hold it.').waitFor();
      expect(await frame.evaluate(() => String(getSelection()).trim())).toBe('sk_test_1');
    });
  });
});
