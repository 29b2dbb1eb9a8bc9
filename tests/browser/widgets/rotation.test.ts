// The list of keys rotates one: what is asked, what is said of the old key, and who sees the new one, and how long.

import { expect, test } from 'bun:test';
import type { Frame, FrameLocator } from 'playwright-core';
import { describeInBrowser, isolatingBrowser, stopClock } from '../../support/browser.ts';
import { rows } from '../../support/everything.ts';
import { waitFor } from '../../support/wait-for.ts';
import { type BareHost, listOf, responseTo, toolResult, withShown } from './bare-host.ts';
import { isInMemory } from './heap.ts';
import { focused, rowOf as row, type WithPreview, withPreview } from './preview-page.ts';

const KEY = `sk_test_${'5a3b1ec0'.repeat(8)}`;
const HOUR_MS = 3_600_000;
const UNTIL_FIRST_USE = 'Rotation under way: the old key works on, and the new one has not been used yet.';
const ENDS_LATER = 'The old key works on, and ends 24 hours after the new one is first used.';

const html = (widget: FrameLocator | Frame) => widget.locator('html').evaluate((root) => root.outerHTML);
const question = (list: FrameLocator | Frame, name: string) => list.getByRole('group', { name: `Rotate ${name}?` });
const newKeyOf = (list: FrameLocator | Frame, name: string) => list.getByRole('group', { name: `New key of ${name}` });
const ask = (list: FrameLocator | Frame, name: string) =>
  list.getByRole('button', { name: `Rotate ${name}`, exact: true }).click();
const confirm = (list: FrameLocator | Frame, name: string) =>
  question(list, name).getByRole('button', { name: 'Rotate' }).click();

/** What rotate_api_key returns. */
const rotated = (previous: object, rest: object = {}) => ({
  content: [],
  structuredContent: { id: '0', key: KEY, name: 'one', scopes: [], expiresAt: null, previous, ...rest },
});
const LATER = { state: 'until_first_use', overlapHours: 24 };
const ENDED = { state: 'ended', overlapHours: 0 };
const refusal = (...texts: string[]) => ({ isError: true, content: texts.map((text) => ({ type: 'text', text })) });

describeInBrowser('a rotation in the widget api-keys-list', (browser) => {
  const open = withPreview(browser);
  const preview: WithPreview = (query, use) => open(`widget=api-keys-list&${query}`, use);
  const withList = (shown: object, use: (host: BareHost) => Promise<void>, inBrowser = browser()) =>
    withShown(inBrowser, 'api-keys-list', shown, use, {
      isStopped: true,
      hostContext: { locale: 'en-GB', timeZone: 'UTC' },
    });

  test('is said to be under way in words, with the time that the old key ends', async () => {
    await preview('calls=off', async ({ list }) => {
      await row(list, 'nightly backup').getByText(UNTIL_FIRST_USE).waitFor();
      const sentence = row(list, 'partner integration').getByText(/^Rotation under way/);
      expect(await sentence.textContent()).toMatch(
        /^Rotation under way: the new key is in use. The old one ends in 5 hours, on .*\d\d\d\d.*\d:\d\d.*\.$/,
      );
      expect(await sentence.locator('time').getAttribute('title')).toMatch(/\d:\d\d:\d\d/);
      expect(await list.getByText(/^Rotation under way/).count()).toBe(2);
    });
  });

  test('is over at the moment that the old key ends, and when the key is revoked; odd shapes of it are not believed', async () => {
    const odd = [null, 7, 'overlapping', {}, { state: '<b>' }, { state: 'overlapping', previousUntil: 'soon' }];
    const [one, two, ...others] = listOf('one', 'two', ...odd.keys()).keys;
    const previousUntil = Date.now() + HOUR_MS;
    const rotation = { state: 'overlapping', previousUntil, otherFingerprint: 'c0ffee5a3b1e' };
    const shown = {
      keys: [
        { ...one, rotation },
        { ...two, rotation: { state: 'until_first_use' } },
        ...others.map((key, index) => ({ ...key, rotation: odd[index] })),
      ],
    };
    await withList(shown, async (host) => {
      const { page, frame, post } = host;
      await row(frame, 'one').getByText('in 1 hour').waitFor();
      expect(await frame.locator('.name').count()).toBe(2 + odd.length);
      expect(await frame.getByText(/^Rotation under way/).count()).toBe(2);
      await page.clock.runFor(HOUR_MS + 60_000);
      await row(frame, 'one')
        .getByText(/^Rotation under way/)
        .waitFor({ state: 'hidden' });
      expect(
        await row(frame, 'two')
          .getByText(/^Rotation under way/)
          .isVisible(),
      ).toBe(true);
      await frame.getByRole('button', { name: 'More about two' }).click();
      await frame.getByRole('button', { name: 'Revoke two' }).click();
      await frame.getByRole('group', { name: 'Revoke two?' }).getByRole('button', { name: 'Revoke' }).click();
      await post(await responseTo(host, { content: [], structuredContent: { success: true } }));
      await row(frame, 'two')
        .getByText(/^Rotation under way/)
        .waitFor({ state: 'hidden' });
      expect(await frame.getByRole('button', { name: 'Rotate two' }).count()).toBe(0);
    });
  });

  for (const data of rows(['few', 'widget'], 1)) {
    test(`shows the new key once, to be copied; the old one has leaked and ends now, or goes on, with data=${data}`, async () => {
      await preview(`data=${data}`, async ({ page, list }) => {
        await ask(list, 'partner integration');
        await question(list, 'partner integration').getByRole('radio', { name: 'It leaked: end it now' }).check();
        await confirm(list, 'partner integration');
        await newKeyOf(list, 'partner integration').getByText('It has ended.').waitFor();
        await row(list, 'partner integration')
          .getByText(/^Rotation under way/)
          .waitFor({ state: 'hidden' });
        await page.getByText('tools/call #2').click();
        await page.getByText('"overlapHours": 0').first().waitFor();

        await ask(list, 'CI pipeline');
        await question(list, 'CI pipeline').getByText(ENDS_LATER).waitFor();
        await confirm(list, 'CI pipeline');
        const shown = newKeyOf(list, 'CI pipeline');
        await shown.getByText('Save this key now - it will not be shown again').waitFor();
        await shown.getByText('It works on, and ends 24 hours after the new one is first used.').waitFor();
        await list.getByRole('status').getByText('API key rotated').waitFor();
        await row(list, 'CI pipeline').getByText(UNTIL_FIRST_USE).waitFor();
        expect(await html(list)).not.toContain(KEY.slice(-8));
        await stopClock(page); // what says that it was copied goes after a while
        await shown.getByRole('button', { name: 'Copy' }).click();
        await shown.getByText('Copied', { exact: true }).waitFor();
        expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(KEY);
        await shown.getByRole('button', { name: 'Show key' }).click();
        expect(await shown.locator('code').textContent()).toBe(KEY);
        await shown.getByRole('button', { name: 'I have saved it' }).click();
        await shown.waitFor({ state: 'detached' });
        expect(await html(list)).not.toContain(KEY.slice(-8));
        await page.getByText('tools/call #3').click();
        await page.getByText('"overlapHours": 24').first().waitFor();
      });
    });
  }

  const ends: readonly (readonly [string, (host: BareHost) => Promise<unknown>])[] = [
    ['it is saved', ({ frame }) => newKeyOf(frame, 'one').getByRole('button', { name: 'I have saved it' }).click()],
    ['the widget closes', ({ post }) => post({ jsonrpc: '2.0', id: 'close', method: 'ui/resource-teardown' })],
  ];
  for (const [when, end] of rows(ends, 0)) {
    test(`leaves nothing of the new key in the page or in memory once ${when}`, async () => {
      const use = async (host: BareHost) => {
        const { page, frame, post } = host;
        const memory = await page.context().newCDPSession(frame);
        await ask(frame, 'one');
        await confirm(frame, 'one');
        await post(await responseTo(host, rotated(LATER)));
        await newKeyOf(frame, 'one').getByRole('button', { name: 'Show key' }).click();
        await waitFor(() => isInMemory(memory, KEY.slice(-32))); // the look finds what is there
        await end(host);
        await newKeyOf(frame, 'one').waitFor({ state: 'detached' });
        expect(await html(frame)).not.toContain(KEY.slice(-8));
        expect(await isInMemory(memory, KEY.slice(-32))).toBe(false);
      };
      await withList(listOf('one', 'two'), use, await isolatingBrowser());
    });
  }

  test('keeps the new key through a newer list, and forgets it with its key', async () => {
    await withList(listOf('one', 'two'), async (host) => {
      const { frame, post } = host;
      await ask(frame, 'one');
      await confirm(frame, 'one');
      await post(toolResult(listOf('one', 'two', 'three')), await responseTo(host, rotated(LATER)));
      await newKeyOf(frame, 'one').waitFor();
      await post(toolResult(listOf('one')));
      await row(frame, 'two').waitFor({ state: 'detached' });
      await newKeyOf(frame, 'one').getByRole('button', { name: 'Show key' }).click();
      expect(await newKeyOf(frame, 'one').locator('code').textContent()).toBe(KEY);
      await frame.getByRole('button', { name: 'More about one' }).click();
      await frame.getByRole('button', { name: 'Revoke one' }).click();
      await frame.getByRole('group', { name: 'Revoke one?' }).getByRole('button', { name: 'Revoke' }).click();
      await post(await responseTo(host, { content: [], structuredContent: { success: true } }));
      await newKeyOf(frame, 'one').waitFor({ state: 'detached' });
      expect(await html(frame)).not.toContain(KEY.slice(-8));
    });
  });

  test('shows the newer key alone after a second rotation, and says before that the first ends; and that none came', async () => {
    await withList(listOf('one', 'two'), async (host) => {
      const { frame, post } = host;
      await ask(frame, 'one');
      await confirm(frame, 'one');
      await post(await responseTo(host, rotated(LATER)));
      await ask(frame, 'one');
      await question(frame, 'one').getByText('The new one that was not used yet ends.').waitFor();
      await confirm(frame, 'one');
      await post(await responseTo(host, rotated(ENDED, { key: 'sk_test_second' })));
      await newKeyOf(frame, 'one').getByText('It has ended.').waitFor();
      await newKeyOf(frame, 'one').getByRole('button', { name: 'Show key' }).click();
      expect(await newKeyOf(frame, 'one').locator('code').allTextContents()).toEqual(['sk_test_second']);
      await ask(frame, 'two');
      await confirm(frame, 'two');
      await post(await responseTo(host, rotated(LATER, { id: '1', key: undefined })));
      await frame.getByRole('alert').getByText('this chat app did not pass the new one on').waitFor();
    });
  });

  const until = Date.UTC(2030, 0, 2, 3, 4, 5, 678);
  const said = 'Still accepted until 2030-01-02T03:04:05.678Z';
  const refusals = [
    [
      [said],
      { code: 'rotation_under_way', previousUntil: until },
      'The old key of the rotation before still works, until 2 Jan 2030, 03:04. Rotate after that, or choose “It leaked: end it now”.',
    ],
    [[said], { code: 'rotation_under_way', previousUntil: '2030-01-02' }, said],
    [[said], { code: 'another', previousUntil: until }, said],
    [[said], undefined, said],
    [
      ['You may not give a key these scopes', 'You may give these scopes: read'],
      undefined,
      'You may not give a key these scopes. You may give these scopes: read',
    ],
    [
      ['The key is revoked or has expired; create a new one'],
      undefined,
      'The key is revoked or has expired; create a new one',
    ],
  ] as const;
  test('that is refused says why, and can be tried again', async () => {
    const names = refusals.map((_, at) => `key ${at}`);
    await withList(listOf(...names), async (host) => {
      const { frame, post } = host;
      for (const [at, [texts, forWidget, shown]] of refusals.entries()) {
        const name = names[at] ?? '';
        await ask(frame, name);
        await confirm(frame, name);
        expect(await question(frame, name).getByRole('radio').first().isDisabled()).toBe(true);
        await post(await responseTo(host, { ...refusal(...texts), _meta: { 'mcp-key-server/widget': forWidget } }));
        expect(await question(frame, name).getByRole('alert').textContent()).toBe(shown);
        await question(frame, name).getByRole('radio', { name: 'It leaked: end it now' }).check();
        await question(frame, name).getByRole('button', { name: 'Try again' }).click();
        await post(await responseTo(host, rotated(ENDED)));
        await newKeyOf(frame, name).waitFor();
      }
    });
  });

  test('that fails with an error of the host says so, also with an error that has no words', async () => {
    await withList(listOf('one'), async (host) => {
      const { frame, post } = host;
      await ask(frame, 'one');
      for (const [message, shown] of [
        ['The person said no', 'The person said no'],
        ['', 'The answer could not be read.'],
        [undefined, 'The answer could not be read.'],
      ]) {
        await question(frame, 'one')
          .getByRole('button', { name: /^(Rotate|Try again)$/ })
          .click();
        const { id } = await responseTo(host, {});
        await post({ jsonrpc: '2.0', id, error: { code: -32000, message } });
        await question(frame, 'one').getByRole('button', { name: 'Try again' }).waitFor();
        expect(await question(frame, 'one').getByRole('alert').textContent()).toBe(String(shown));
      }
    });
  });

  test('is made with the keyboard alone, and the focus is seen and never lost', async () => {
    await preview('', async ({ page, list, frame }) => {
      const inside = await frame('api-keys-list');
      await list.getByRole('button', { name: 'Rotate CI pipeline' }).focus();
      await page.keyboard.press('Enter');
      expect(await focused(inside)).toEqual(['24', 'solid']);
      await page.keyboard.press('Escape');
      expect(await focused(inside)).toEqual(['Rotate CI pipeline', 'solid']);
      await page.keyboard.press('Enter');
      await page.keyboard.press('ArrowDown');
      expect(await focused(inside)).toEqual(['0', 'solid']);
      await page.keyboard.press('Tab');
      expect(await focused(inside)).toEqual(['Rotate', 'solid']);
      await page.keyboard.press('Enter');
      await newKeyOf(list, 'CI pipeline').getByText('It has ended.').waitFor();
      expect(await focused(inside)).toEqual(['Copy', 'solid']);
      await stopClock(page);
      await page.keyboard.press('Enter');
      await newKeyOf(list, 'CI pipeline').getByText('Copied', { exact: true }).waitFor();
      await page.keyboard.press('Tab');
      expect(await focused(inside)).toEqual(['I have saved it', 'solid']);
      await page.keyboard.press('Enter');
      expect(await focused(inside)).toEqual(['More about CI pipeline', 'solid']);
    });
  });
});
