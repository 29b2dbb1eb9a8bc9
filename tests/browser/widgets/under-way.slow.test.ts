// The list while a response is awaited, and when it comes: whatever the person or the host does in between.

import { expect, test } from 'bun:test';
import type { Frame } from 'playwright-core';
import { confirm, describeInBrowser, press } from '../../support/browser.ts';
import { type BareHost, listOf, responseTo, toolResult, withShown } from './bare-host.ts';

const SUCCESS = { content: [], structuredContent: { success: true, message: 'Done as asked' } };
const FAILURE = { isError: true, content: [{ type: 'text', text: 'Out of reach' }] };

/** Confirms what a button of a key asks, in its opened row if it is there. */
async function confirmInRow(frame: Frame, verb: 'Revoke' | 'Delete', name: string) {
  const isOpen = (await frame.getByRole('button', { name: `${verb} ${name}`, exact: true }).count()) > 0;
  if (!isOpen) await press(frame, `More about ${name}`);
  await confirm(frame, verb, name);
}

const focused = (frame: Frame) =>
  frame.evaluate(() => document.activeElement?.ariaLabel ?? document.activeElement?.textContent);

describeInBrowser('the widget api-keys-list', (browser) => {
  const withList = (names: readonly string[], use: (host: BareHost) => Promise<void>) =>
    withShown(browser(), 'api-keys-list', listOf(...names), use, { isStopped: true });

  test('leaves the focus where the person has gone while the response was awaited, also where a count changes', async () => {
    await withList(['slow', 'other', 'third'], async (host) => {
      const { frame, post } = host;
      await confirmInRow(frame, 'Revoke', 'slow');
      await frame.getByRole('button', { name: 'More about other' }).click();
      await frame.getByRole('button', { name: 'Revoke other' }).click();
      expect(await focused(frame)).toBe('Cancel');
      await post(await responseTo(host, SUCCESS));
      await frame.getByText('Done as asked').waitFor();
      expect(await focused(frame)).toBe('Cancel');
      await confirmInRow(frame, 'Delete', 'slow');
      await frame.getByRole('button', { name: 'Active 2' }).focus();
      await post(await responseTo(host, SUCCESS));
      expect(await focused(frame)).toBe('Active 2');
      await confirmInRow(frame, 'Revoke', 'third');
      await frame.getByRole('button', { name: 'Active 2' }).focus();
      await post(await responseTo(host, SUCCESS));
      await frame.getByRole('button', { name: 'Active 1' }).waitFor();
      expect(await focused(frame)).toBe('Active 1');
    });
  });

  test('an action asked in an older list shows its result in a newer one', async () => {
    await withList(['one', 'two'], async (host) => {
      const { frame, post } = host;
      await confirmInRow(frame, 'Revoke', 'one');
      await post(toolResult(listOf('one', 'two')), await responseTo(host, SUCCESS));
      await frame.getByRole('button', { name: 'Revoked 1' }).waitFor();
      await confirmInRow(frame, 'Delete', 'two');
      await post(toolResult(listOf('one', 'two')), await responseTo(host, SUCCESS));
      expect(await frame.locator('.name').allTextContents()).toEqual(['one']);
    });
  });

  test('keeps the search in sight in a newer, shorter list, and moves the focus to what it says of an empty one', async () => {
    await withList([...'12345678'], async (host) => {
      const { frame, post } = host;
      await frame.getByRole('searchbox').fill('8');
      await post(toolResult(listOf('1', '2')));
      await frame.getByText('No key matches.').waitFor();
      await frame.getByRole('searchbox').fill('');
      await frame.getByText('2 keys', { exact: true }).waitFor();
      await post(toolResult(listOf('last')));
      await confirmInRow(frame, 'Delete', 'last');
      await post(await responseTo(host, SUCCESS));
      await frame.getByRole('heading', { name: 'No API keys yet' }).waitFor();
      expect(await focused(frame)).toBe('No API keys yet');
    });
  });

  test('keeps a row in sight while its response is awaited, whatever is searched, without what an earlier try said', async () => {
    await withList([...'12345678'], async (host) => {
      const { frame, post } = host;
      await confirmInRow(frame, 'Revoke', '1');
      await post(await responseTo(host, SUCCESS));
      await frame.getByText('Done as asked').waitFor();
      await confirmInRow(frame, 'Revoke', '2');
      await frame.getByRole('searchbox').fill('8');
      await post(await responseTo(host, FAILURE));
      await frame.getByRole('alert').getByText('Out of reach').waitFor();
      expect(await frame.getByText('Done as asked').count()).toBe(0);
      await frame.getByRole('button', { name: 'Try again' }).click();
      await frame.getByRole('button', { name: 'Revoking…' }).waitFor();
      expect(await frame.getByRole('group', { name: 'Revoke 2?' }).getByRole('paragraph').textContent()).toBe(
        'Revoke 2? Programs that use it are refused at once, elsewhere within a second.',
      );
    });
  });
});
