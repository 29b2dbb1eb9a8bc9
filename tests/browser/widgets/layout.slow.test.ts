// What must not overlap, jump, break or be cut off, in fonts and sizes the widgets don't choose.

import { expect, test } from 'bun:test';
import type { Frame } from 'playwright-core';
import { describeInBrowser, stopClock } from '../../support/browser.ts';
import { rows } from '../../support/everything.ts';
import { type BareHost, listOf, withShown } from './bare-host.ts';
import { withPreview } from './preview-page.ts';

const DAY_MS = 86_400_000;
/** Wider than most. */
const DEJAVU = "* { font-family: 'DejaVu Sans' !important }";
// What a person may set for all text (WCAG 2.2, 1.4.12).
const SPACED = '* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important }';

const AS_IT_IS = '* { }';
const TWICE = '* { font-size: 26px !important }';

/** Looks at the frame with this style, which then goes. */
async function withStyle({ frame }: BareHost, content: string, look: () => Promise<void>) {
  const tag = await frame.addStyleTag({ content });
  await look();
  await tag.evaluate((style) => (style as Element).remove());
}

async function resize({ page, frame }: BareHost, widthPx: number) {
  await page.evaluate((width) => {
    const element = document.querySelector('iframe');
    if (element) element.style.cssText = `width: ${width}px; height: 500px; border: 0`;
  }, widthPx);
  await frame.waitForFunction((width) => innerWidth === width, widthPx);
}

/** Pairs of texts in a row that overlap, and buttons whose word is broken. */
const faults = (frame: Frame) =>
  frame.evaluate(() => {
    const boxes = (row: Element) =>
      Array.from(row.querySelectorAll('.name, .scopes li, .state, .when, .uses, .sentence, dd, button'))
        .filter((element) => element.checkVisibility())
        .flatMap((element) => {
          const range = document.createRange();
          range.selectNodeContents(element);
          const { bottom } = element.getBoundingClientRect(); // a name shows its first lines only
          const texts = Array.from(range.getClientRects()).filter((box) => box.top < bottom);
          const rects = element.matches('.state') ? element.getClientRects() : texts;
          return Array.from(rects, (box) => ({ box, element }));
        });
    const onEachOther = Array.from(document.querySelectorAll('.scroll > ul > li')).flatMap((row) =>
      boxes(row).flatMap(({ box: a, element }, index, all) =>
        all
          .slice(index + 1)
          .filter(({ element: other }) => !element.contains(other) && !other.contains(element))
          .filter(({ box: b }) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
          .map(({ element: other }) => `${element.textContent} on ${other.textContent}`),
      ),
    );
    const broken = Array.from(document.querySelectorAll('button'))
      .filter((button) => !button.textContent?.includes(' ') && button.checkVisibility())
      .filter((button) => {
        const range = document.createRange();
        range.selectNodeContents(button);
        return new Set(Array.from(range.getClientRects(), ({ top }) => top)).size > 1;
      })
      .map((button) => `broken: ${button.textContent}`);
    return [...onEachOther, ...broken];
  });

describeInBrowser('the widget api-keys-list', (browser) => {
  const withList = (shown: object, use: (host: BareHost) => Promise<void>) =>
    withShown(browser(), 'api-keys-list', shown, use, {
      hostContext: { containerDimensions: { width: 800, maxHeight: 500 } },
    });
  const many = listOf(...Array.from({ length: 30 }, (_, index) => `key ${index}`));

  test('is no taller than the host lets it be, and has buttons that look like buttons before they are hovered', async () => {
    await withList(many, async (host) => {
      await resize(host, 800);
      expect(await host.frame.locator('html').evaluate((root) => root.getBoundingClientRect().height)).toBe(500);
      expect(await host.frame.locator('.scroll').evaluate((scroll) => scroll.scrollHeight)).toBeGreaterThan(500);
      const looks = await host.frame.locator('.buttons button').evaluateAll((buttons) =>
        buttons.map((button) => {
          const { borderTopStyle, borderTopWidth, borderTopColor } = getComputedStyle(button);
          return { borderTopStyle, borderTopWidth, isSeen: !/^rgba\(.*, 0\)$/.test(borderTopColor) };
        }),
      );
      const seen = { borderTopStyle: 'solid', borderTopWidth: '1px', isSeen: true };
      expect(looks).toEqual(Array(2 * many.keys.length).fill(seen));
    });
  });

  const rotation = { state: 'overlapping', previousUntil: Date.now() + DAY_MS, otherFingerprint: 'c0ffee5a3b1e' };
  const soon = { active: true, createdAt: Date.now() - 330 * DAY_MS, expiresAt: Date.now() + 3 * DAY_MS, rotation };
  const long = listOf('W'.repeat(60), 'partner integration with a name that goes on and on').keys;

  test('lays no text on another and breaks no word of a button, in narrow and wide hosts and in any text', async () => {
    await withList({ keys: long.map((key) => ({ ...key, ...soon })) }, async (host) => {
      for (const more of await host.frame.getByRole('button', { name: /^More about/ }).all()) await more.click();
      await host.frame.locator('dd').first().waitFor();
      for (const [widthPx, css] of [
        [320, AS_IT_IS],
        [800, AS_IT_IS],
        [800, SPACED],
        [800, TWICE],
        [480, TWICE],
      ] as const) {
        await resize(host, widthPx);
        await withStyle(host, css, async () => {
          expect({ widthPx, css, faults: await faults(host.frame) }).toEqual({ widthPx, css, faults: [] });
        });
      }
    });
  });

  const MINUTE_MS = 60_000;
  const [first, second] = listOf('one', 'two').keys;
  const times = {
    keys: [
      { ...first, createdAt: Date.now() - 59.2 * MINUTE_MS, lastUsedAt: Date.now() - 14.2 * MINUTE_MS },
      { ...second, expiresAt: Date.now() + 58 * MINUTE_MS, active: false },
    ],
  };
  test('breaks no time, and lines the times up, at each width and in a wide font', async () => {
    await withList(times, async (host) => {
      for (const [widthPx, css] of [320, 480, 781, 840].flatMap((width) => [
        [width, AS_IT_IS] as const,
        [width, DEJAVU] as const,
      ])) {
        await resize(host, widthPx);
        await withStyle(host, css, async () => {
          const { lefts, ...found } = await host.frame.evaluate(() => ({
            lines: Array.from(document.querySelectorAll('time'), (time) => time.getClientRects().length),
            lefts: Array.from(document.querySelectorAll('.scroll > ul > li'), (row) =>
              Array.from(row.querySelectorAll('.when'), (time) => time.getBoundingClientRect().left),
            ),
            isTooWide: document.documentElement.scrollWidth > innerWidth,
          }));
          const columns = new Set(lefts.map((ofRow) => JSON.stringify(ofRow))).size;
          expect({ widthPx, css, ...found, columns, faults: await faults(host.frame) }).toEqual({
            ...{ widthPx, css, lines: [1, 1, 1, 1], isTooWide: false, columns: 1, faults: [] },
          });
        });
      }
    });
  });
});

describeInBrowser('the widget api-key-created', (browser) => {
  const preview = withPreview(browser);

  const LOOKS = [
    ['320', 'DejaVu Sans', 'a wide font'],
    ['720', 'sans-serif', 'the usual font'],
    ['320', 'sans-serif', 'the usual font'],
    ['480', 'sans-serif', 'the usual font'],
    ['480', 'DejaVu Sans', 'a wide font'],
  ] as const;
  for (const [width, font, what] of rows(LOOKS, 2)) {
    test(`moves nothing when a key is copied, at ${width} px in ${what}`, async () => {
      await preview(`widget=api-key-created&width=${width}`, async ({ page, created, frame }) => {
        await (await frame('api-key-created')).evaluate(
          (name) => document.documentElement.style.setProperty('--font-sans', name),
          font,
        );
        const places = () =>
          created
            .locator('main')
            .evaluate((main) =>
              Array.from(main.querySelectorAll('code, button, dl, .warn'), (element) =>
                JSON.stringify(element.getBoundingClientRect()),
              ),
            );
        await created.getByRole('button', { name: 'Show key' }).waitFor();
        await stopClock(page); // what says that it was copied goes after a while
        const before = await places();
        for (const [name, box] of [
          ['Copy', 'API key'],
          ['Copy header', 'Request header'],
        ] as const) {
          await created.getByRole('button', { name, exact: true }).click();
          await created.getByRole('group', { name: box, exact: true }).getByText('Copied', { exact: true }).waitFor();
          expect(await places()).toEqual(before);
        }
      });
    });
  }
});
