// The widgets used by touch, on a phone.

import { expect, test } from 'bun:test';
import { describeInBrowser } from '../../support/browser.ts';
import { type BareHost, listOf, withShown } from './bare-host.ts';

const TARGET_PX_MIN = 40;
const ZOOMED_BELOW_PX = 16; // iOS zooms into a field with smaller text, and stays there

const PHONE = { isMobile: true, hasTouch: true, viewport: { width: 390, height: 844 } };
const scopes = ['read', 'write', 'read:orders', 'write:orders', 'admin'];
const keys = listOf(...'12345678').keys.map((key) => ({ ...key, scopes }));

describeInBrowser('on a phone', (browser) => {
  const created = { key: 'sk_test_1', name: 'fine', scopes: [...scopes, ...scopes], expiresAt: null };

  test.each([
    ['api-key-created', created],
    ['api-keys-list', { keys }],
  ] as const)('%s has targets as large as a fingertip, and fields that no phone zooms into', async (widget, shown) => {
    const use = async ({ frame }: BareHost) => {
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
    };
    await withShown(browser(), widget, shown, use, PHONE);
  });

  test('a refused clipboard is told with the gesture that copies there', async () => {
    const use = async ({ frame }: BareHost) => {
      await frame.getByRole('button', { name: 'Copy', exact: true }).click();
      await frame.getByText('It is selected: touch and hold it.').waitFor();
      expect(await frame.evaluate(() => String(getSelection()).trim())).toBe('sk_test_1');
    };
    await withShown(browser(), 'api-key-created', created, use, PHONE);
  });
});
