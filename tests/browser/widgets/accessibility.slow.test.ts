// axe-core's findings on the widgets and on the page around them, light and dark, in each thing they can show.

import { expect, test } from 'bun:test';
import { confirm, describeInBrowser, isolatingBrowser } from '../../support/browser.ts';
import { rows } from '../../support/everything.ts';
import { findings } from '../axe.ts';
import { type Preview, withPreview } from './preview-page.ts';

const SERIOUS = ['serious', 'critical'] as const;
const AS_IT_IS = async () => {};
const SHOWN: readonly (readonly [string, string, (preview: Preview) => Promise<void>])[] = [
  ['a few keys', 'data=few', AS_IT_IS],
  ['a new key in the list, details and a question', 'data=few', rotate],
  [
    'a failure, narrow',
    'data=few&calls=fail&width=320',
    async ({ list }) => {
      await list.getByRole('button', { name: 'More about CI pipeline' }).click();
      await confirm(list, 'Revoke', 'CI pipeline');
      await list.getByRole('alert').waitFor();
    },
  ],
  ['nothing', 'data=empty', AS_IT_IS],
  ['hostile names', 'data=hostile', AS_IT_IS],
  ['an error', 'data=error', AS_IT_IS],
  ['a rotated key, narrow', 'data=rotated&width=320', AS_IT_IS],
  ['a list without actions, narrow', 'calls=off&width=320', AS_IT_IS],
  [
    'the key and a question',
    'data=few',
    async ({ created, list }) => {
      await created.getByRole('button', { name: 'Show key' }).click();
      await list.getByRole('button', { name: 'More about CI pipeline' }).click();
      await list.getByRole('button', { name: 'Delete CI pipeline' }).click();
    },
  ],
  ['a new key in the list, narrow', 'data=few&width=320', rotate],
];

/** Rotates one key, and asks about another. */
async function rotate({ list }: Preview) {
  await confirm(list, 'Rotate', 'CI pipeline');
  await list.getByRole('button', { name: 'Show key' }).click();
  await list.getByText('nightly backup', { exact: true }).click();
  await list.getByRole('button', { name: 'Rotate nightly backup' }).click();
  await list.getByRole('radio').first().waitFor();
}

describeInBrowser('axe-core finds nothing serious', (browser) => {
  const preview = withPreview(browser);

  for (const [what, query, act] of rows(SHOWN, 3)) {
    test(`in ${what}, light and dark`, async () => {
      await preview(`theme=light&${query}`, async (shown) => {
        for (const widget of [shown.created, shown.list]) {
          await widget.getByText(/^(Loading keys|Creating the key)…$/).waitFor({ state: 'hidden' });
        }
        await act(shown);
        const created = await shown.frame('api-key-created');
        const list = await shown.frame('api-keys-list');
        for (const theme of ['light', 'dark'] as const) {
          await shown.page.getByRole('button', { name: theme }).click();
          for (const frame of [created, list]) {
            await frame.locator(`[data-theme=${theme}]`).waitFor({ state: 'attached' });
            expect(await findings(frame, theme, SERIOUS)).toEqual([]);
          }
          if (what === 'a few keys') expect(await findings(shown.page.mainFrame(), theme, SERIOUS)).toEqual([]);
        }
      });
    });
  }
});

describeInBrowser("in colours of a person's own", (browser) => {
  const preview = withPreview(browser);

  test('with forced colours the chosen state filter still stands out', async () => {
    await preview('widget=api-keys-list', async ({ page, list }) => {
      await page.emulateMedia({ forcedColors: 'active' });
      const background = (name: string) =>
        list.getByRole('button', { name }).evaluate((button) => getComputedStyle(button).backgroundColor);
      expect(await background('All 6')).not.toBe(await background('Active 3'));
    });
  });
});

describeInBrowser('a screen reader', () => {
  const alone = withPreview(isolatingBrowser); // what it is told of one frame
  test('is told what is at stake with the first button of a question', async () => {
    await alone('widget=api-keys-list', async ({ page, list, frame }) => {
      await list.getByRole('button', { name: 'Delete old laptop' }).click();
      const session = await page.context().newCDPSession(await frame('api-keys-list'));
      const { nodes } = await session.send('Accessibility.getFullAXTree');
      const focused = nodes.find(
        ({ role, properties }) =>
          role?.value === 'button' && properties?.some(({ name, value }) => name === 'focused' && value.value === true),
      );
      expect([focused?.name?.value, focused?.description?.value]).toEqual([
        'Cancel',
        'Delete old laptop? It stops working and leaves the list. This cannot be undone.',
      ]);
    });
  });
});
