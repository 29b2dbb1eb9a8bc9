// Text that anyone may choose, narrow hosts, themes: what is shown stays text, and stays in its place.

import { expect, test } from 'bun:test';
import type { Frame } from 'playwright-core';
import { describeInBrowser } from '../../support/browser.ts';
import { rows } from '../../support/everything.ts';
import { waitFor } from '../../support/wait-for.ts';
import { sampleOf } from './lab/samples.ts';
import { rows as rowsIn, withPreview } from './preview-page.ts';

const hostileKeys = (
  sampleOf('api-keys-list', 'hostile').result.structuredContent as {
    keys: { name: string; scopes: string[] }[];
  }
).keys;

/** Elements that stick out of the window, or out of the line they stand in. */
const overflowing = (frame: Frame) =>
  frame.evaluate(() =>
    Array.from(document.body.querySelectorAll('*'))
      .filter((element) => !element.closest('svg, .sr') && element.getBoundingClientRect().right > innerWidth + 0.5)
      .map((element) => element.outerHTML.slice(0, 120)),
  );

describeInBrowser('both widgets', (browser) => {
  const preview = withPreview(browser);

  test('show hostile names and scopes as the text they are, run none of it, and say when a name is blank or hides characters', async () => {
    await preview('data=hostile', async ({ created, list, frame }) => {
      await list.getByText('13 keys', { exact: true }).waitFor();
      const shown = await list.locator('.name bdi').allTextContents();
      expect(shown).toEqual(hostileKeys.map(({ name }) => name));
      const said = await list
        .locator('.name')
        .evaluateAll((all) => all.map((name) => name.querySelector('.warn')?.textContent));
      const hidden = '(has hidden characters)';
      expect(said.filter(Boolean)).toEqual([hidden, hidden, '(blank name)', hidden]); // nothing of an honest one
      expect(said.indexOf('(blank name)')).toBe(6);
      await rowsIn(list).first().getByText('97 more').click();
      const scopes = rowsIn(list).first().getByRole('list', { name: 'Scopes' }).locator('bdi');
      expect(await scopes.allInnerTexts()).toEqual(hostileKeys[0]?.scopes ?? []);
      expect(await created.getByRole('heading').textContent()).toContain(
        '</template></script><script>alert(1)</script>',
      );
      for (const widget of ['api-key-created', 'api-keys-list'] as const) {
        const made = await (await frame(widget)).evaluate(
          () => document.querySelectorAll('script:not(#setup), img, a, iframe').length,
        );
        expect(made).toBe(1); // the widget's own script
      }
    });
  });

  const FORMS = [
    [320, 'hostile'],
    [720, 'hostile'],
    [320, 'few'],
    [320, 'empty'],
    [480, 'hostile'],
  ] as const;
  for (const [width, data] of rows(FORMS, 2)) {
    test(`fit into ${width} px with data=${data}`, async () => {
      await preview(`data=${data}&width=${width}`, async ({ created, list, frame }) => {
        await created.getByRole('button', { name: 'Show key' }).click();
        await list.getByText('Loading keys…').waitFor({ state: 'hidden' });
        if (data !== 'empty') {
          const row = rowsIn(list).first();
          await row.getByRole('button', { name: /^More about/ }).click();
          await row.getByRole('button', { name: /^Rotate / }).click();
          await row.getByRole('group').getByRole('button', { name: 'Rotate' }).click();
          await row.getByRole('button', { name: 'Show key' }).click();
          await row.getByRole('button', { name: /^Delete / }).click();
        }
        for (const widget of ['api-key-created', 'api-keys-list'] as const) {
          const inside = await frame(widget);
          expect(await inside.evaluate(() => innerWidth)).toBe(width);
          expect(await overflowing(inside)).toEqual([]);
        }
      });
    });
  }

  test('follow the system unless a theme is chosen, and then the host, with its colours and fonts', async () => {
    await preview('data=few', async ({ page, created, list }) => {
      const shows = async (theme: string) => {
        await page.locator(`html[data-theme=${theme}]`).waitFor({ state: 'attached' });
        for (const widget of [created, list]) await widget.locator(`[data-theme=${theme}] body`).waitFor();
      };
      const choose = (theme: string) => page.getByRole('button', { name: theme }).click();
      const look = () =>
        Promise.all(
          [created, list].map((widget) =>
            widget.locator('body').evaluate((body) => {
              const { backgroundColor, color, fontFamily } = getComputedStyle(body);
              return [backgroundColor, color, fontFamily.split(',')[0]];
            }),
          ),
        );
      await shows('light');
      await page.emulateMedia({ colorScheme: 'dark' });
      await shows('dark');
      await choose('light');
      await shows('light');
      const light = ['rgb(255, 255, 255)', 'rgb(29, 28, 26)', '-apple-system'];
      expect(await look()).toEqual([light, light]);
      await choose('dark');
      await shows('dark');
      const dark = ['rgb(31, 31, 33)', 'rgb(243, 242, 239)', '-apple-system'];
      expect(await look()).toEqual([dark, dark]);
      await choose('sepia');
      await shows('light');
      const sepia = ['rgb(251, 243, 228)', 'rgb(59, 42, 26)', 'Georgia'];
      expect(await look()).toEqual([sepia, sepia]);
      await choose('light');
      for (const widget of [created, list]) await widget.locator('html:not([style*=Georgia])').waitFor();
      expect(await look()).toEqual([light, light]);
      await choose('system');
      await shows('dark');
    });
  });

  test('tell the host how tall they are, and grow no taller than a screen', async () => {
    await preview('data=1000', async ({ page, list }) => {
      await list.getByText('1,000 keys', { exact: true }).waitFor();
      const height = () => page.locator('iframe[name=api-keys-list]').evaluate((frame) => frame.clientHeight);
      await waitFor(async () => (await height()) === 640); // the host is told when the list has been laid out
      expect(await list.locator('html').evaluate((root) => root.scrollHeight - root.clientHeight)).toBe(0);
    });
  });
});
