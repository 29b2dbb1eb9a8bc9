// The widget that lists keys, in a real browser.

import { expect, test } from 'bun:test';
import type { FrameLocator } from 'playwright-core';
import { describeInBrowser, stopClock } from '../../support/browser.ts';
import { INITIALIZED, listOf, responseTo, toolResult, withBareHost } from './bare-host.ts';
import { focused, rowOf, rows, type WithPreview, withPreview } from './preview-page.ts';

const RESPONDED_MS = 1000; // far above what the host of the preview takes for a call

const button = (widget: FrameLocator, name: string) => widget.getByRole('button', { name, exact: true });
/** Names of the rows a person sees, in order. */
const names = (widget: FrameLocator) => widget.locator('.name').allTextContents();
const stateOf = (widget: FrameLocator, name: string) => rowOf(widget, name).locator('.state').textContent();

describeInBrowser('the widget api-keys-list', (browser) => {
  const open = withPreview(browser);
  const preview: WithPreview = (query, use) => open(`widget=api-keys-list&${query}`, use);

  test('shows each key with its state in words and with an icon, times with the exact one on hover, id and fingerprint', async () => {
    await preview('', async ({ list }) => {
      const ci = rowOf(list, 'CI pipeline');
      await ci.waitFor();
      const states = await rows(list).locator('.state').allTextContents();
      expect(states).toEqual(['Active', 'Active', 'Expires soon', 'Active', 'Expired', 'Revoked']);
      const icons = await rows(list)
        .locator('.state path')
        .evaluateAll((all) => all.map((path) => path.getAttribute('d')));
      expect(new Set(icons).size).toBe(4);
      const times = ci.locator('time');
      expect(await times.allTextContents()).toEqual(['24 days ago', 'in 11 months', '3 minutes ago']);
      expect(await times.first().getAttribute('title')).toMatch(/20\d\d.*\d:\d\d:\d\d/);
      expect(await rowOf(list, 'billing export').locator('.when').allTextContents()).toEqual([
        'Created 14 minutes ago',
        'Expires in 30 days',
        'Not used yet',
      ]);

      await button(list, 'More about CI pipeline').click();
      await ci.getByText('Fingerprint', { exact: true }).waitFor();
      expect(await ci.locator('dd').allTextContents()).toEqual(['0001'.repeat(8), '000100010001']);
      await button(list, 'More about partner integration').click();
      const partner = rowOf(list, 'partner integration');
      await partner.getByText('Fingerprint, old key', { exact: true }).waitFor();
      expect(await partner.locator('dt, dd').allTextContents()).toEqual([
        ...['Id', '0003'.repeat(8)],
        ...['Fingerprint, old key', 'b1ec05a3b1ec'],
        ...['Fingerprint, new key', '000300030003'],
      ]);
    });
  });

  test('sorts by what is chosen, filters by state and by text in name, scope, id or fingerprint, and says how many are left', async () => {
    await preview('data=1000', async ({ list }) => {
      const search = list.getByRole('searchbox');
      const by = async (order: string) => {
        await list.getByRole('combobox', { name: 'Sort by' }).selectOption(`Sort: ${order}`);
        const all = await names(list);
        return [all[0], all.at(-1)];
      };
      await search.fill('000100');
      expect(await by('created')).toEqual(['CI 2', 'mobile app 257']);
      expect(await by('name')).toEqual(['CI 2', 'nightly backup 17']);
      await search.fill('');
      expect(await by('name')).toEqual(['billing export 1', 'status page 1000']);
      expect((await by('state'))[0]).toBe('billing export 1');
      expect(new Set((await list.locator('.state').allTextContents()).slice(-166))).toEqual(new Set(['Revoked']));
      expect(await by('created')).toEqual(['billing export 1', 'status page 1000']);

      await search.fill('F000000003E5');
      await list.getByText('1 of 1,000 keys').waitFor();
      await search.fill('CI 2');
      await list.getByText(/^\d+ of 1,000 keys$/).waitFor();
      expect(new Set((await names(list)).map((name) => name.slice(0, 4)))).toEqual(new Set(['CI 2']));
      await search.fill('ADMIN:users');
      await list.getByRole('status').getByText('200 of 1,000 keys').waitFor(); // a screen reader is told
      await button(list, 'Revoked 166').click();
      expect(new Set(await list.locator('.state').allTextContents())).toEqual(new Set(['Revoked']));
      await search.fill('nothing like this');
      await list.getByText('No key matches.').waitFor();
    });
  });

  test('revokes after a question in the row, and shows it there; deletes after another, and the row leaves the list', async () => {
    await preview('', async ({ page, list }) => {
      await button(list, 'More about CI pipeline').click();
      await button(list, 'Revoke CI pipeline').click();
      const revoke = list.getByRole('group', { name: 'Revoke CI pipeline?' });
      await revoke.getByText('Programs that use it are refused at once, elsewhere within a second.').waitFor();
      await revoke.getByRole('button', { name: 'Revoke' }).click();
      await list.getByText('API key revoked successfully').waitFor();
      expect(await stateOf(list, 'CI pipeline')).toBe('Revoked');
      expect(await button(list, 'Revoke CI pipeline').count()).toBe(0);
      await button(list, 'Revoked 2').waitFor();
      await page.getByText('tools/call #2').click();
      await page.getByText('"name": "revoke_api_key"').waitFor();

      await button(list, 'Delete old laptop').click();
      const remove = list.getByRole('group', { name: 'Delete old laptop?' });
      await remove.getByText('This cannot be undone.').waitFor();
      await remove.getByRole('button', { name: 'Delete' }).click();
      await list.getByText('API key deleted permanently').waitFor();
      await list.getByText('5 keys', { exact: true }).waitFor();
      expect(await names(list)).not.toContain('old laptop');
      expect(await button(list, 'Expired 1').count()).toBe(0);
    });
  });

  test('keeps the focus in sight when the filter hides what was revoked, and deletes to the next row shown', async () => {
    await preview('', async ({ page, list, frame }) => {
      const focused = async () =>
        (await frame('api-keys-list')).evaluate(
          () => document.activeElement?.ariaLabel ?? document.activeElement?.textContent,
        );
      await button(list, 'Active 3').click();
      await button(list, 'More about billing export').click();
      await button(list, 'Delete billing export').click();
      await list.getByRole('group', { name: 'Delete billing export?' }).getByRole('button', { name: 'Delete' }).click();
      await list.getByText('2 of 5 keys').waitFor();
      expect(await focused()).toBe('More about CI pipeline');
      await button(list, 'More about CI pipeline').click();
      await button(list, 'Revoke CI pipeline').click();
      const question = list.getByRole('group', { name: 'Revoke CI pipeline?' });
      const revoke = await question.getByRole('button', { name: 'Revoke' }).elementHandle();
      expect(await button(list, 'Delete CI pipeline').count()).toBe(0); // the question has the row's only buttons
      // Before the response can come: the question stays.
      await stopClock(page);
      await revoke?.evaluate((node) => {
        (node as HTMLElement).focus();
        (node as HTMLElement).click();
      });
      await page.getByText('tools/call #3').waitFor();
      await question.waitFor();
      await page.clock.runFor(RESPONDED_MS);
      await list.getByText('1 of 5 keys').waitFor();
      expect(await focused()).toBe('API keys');
    });
  });

  test('shows a failure in the row it belongs to, and lets try again or leave it', async () => {
    await preview('calls=fail', async ({ page, list }) => {
      await button(list, 'More about CI pipeline').click();
      await button(list, 'Delete CI pipeline').click();
      const question = list.getByRole('group', { name: 'Delete CI pipeline?' });
      await question.getByRole('button', { name: 'Delete' }).click();
      await question.getByRole('alert').getByText('The key store is out of reach; try again').waitFor();
      await stopClock(page); // the response waits until it has been seen to be awaited
      await question.getByRole('button', { name: 'Try again' }).click();
      await question.getByRole('button', { name: 'Deleting…' }).waitFor();
      await page.getByText('tools/call #3').waitFor();
      await page.clock.runFor(RESPONDED_MS);
      await question.getByRole('button', { name: 'Cancel' }).click();
      expect(await stateOf(list, 'CI pipeline')).toBe('Active');
      expect(await question.count()).toBe(0);
    });
  });

  test('gives up on a host that never responds to a call, in a sentence', async () => {
    await preview('calls=silent', async ({ page, list }) => {
      await rowOf(list, 'CI pipeline').waitFor();
      await stopClock(page);
      await button(list, 'More about CI pipeline').click();
      await button(list, 'Revoke CI pipeline').click();
      await list.getByRole('group', { name: 'Revoke CI pipeline?' }).getByRole('button', { name: 'Revoke' }).click();
      await page.getByText('tools/call #2').waitFor();
      await page.clock.fastForward('03:00');
      await list.getByRole('alert').getByText('No answer came.').waitFor();
    });
  });

  test('revokes with the keyboard alone: escape leaves, focus is seen and never lost', async () => {
    await preview('', async ({ page, list, frame }) => {
      await rowOf(list, 'CI pipeline').waitFor();
      const inside = await frame('api-keys-list');
      const tabTo = async (label: string) => {
        for (let presses = 0; presses < 60; presses += 1) {
          await page.keyboard.press('Tab');
          if ((await focused(inside))[0] === label) return;
        }
        throw new Error(`no way to ${label}`);
      };
      await page.locator('nav button').last().focus();
      await tabTo('More about CI pipeline');
      await page.keyboard.press('Enter');
      await tabTo('Revoke CI pipeline');
      await page.keyboard.press('Enter');
      expect(await focused(inside)).toEqual(['Cancel', 'solid']);
      await page.keyboard.press('Escape');
      expect(await focused(inside)).toEqual(['Revoke CI pipeline', 'solid']);
      await page.keyboard.press('Enter');
      await page.keyboard.press('Shift+Tab');
      expect(await focused(inside)).toEqual(['Revoke', 'solid']);
      await page.keyboard.press('Enter');
      await list.getByText('API key revoked successfully').waitFor();
      expect(await focused(inside)).toEqual(['Delete CI pipeline', 'solid']);
      await page.keyboard.press('Enter');
      await page.keyboard.press('Shift+Tab');
      await page.keyboard.press('Enter');
      await list.getByText('5 keys', { exact: true }).waitFor();
      expect(await focused(inside)).toEqual(['More about nightly backup', 'solid']);
    });
  });

  const tools = { ...INITIALIZED, hostCapabilities: { serverTools: {} } };
  const older = { keys: listOf('older').keys.map((key) => ({ ...key, id: 'older' })) };

  test('shows the next page of a long list when asked, or why there is none, and then no button', async () => {
    await withBareHost(browser(), 'api-keys-list', async (host) => {
      const { frame, initialize, post, heard } = host;
      const more = frame.getByRole('button', { name: 'Show more' });
      await initialize(tools);
      await post(toolResult({ ...listOf('newest', 'newer'), nextCursor: '17-3' }));
      await more.click();
      const text = 'Rate limit exceeded; try again later';
      await post(await responseTo(host, { isError: true, content: [{ type: 'text', text }] }));
      await frame.getByText(text).waitFor();
      await more.click();
      await post(await responseTo(host, { content: [], structuredContent: older }));
      await frame.getByText('3 keys', { exact: true }).waitFor();
      expect(await more.count()).toBe(0);
      const calls = (await heard()).filter(({ method }) => method === 'tools/call');
      expect(calls.map(({ params }) => params)).toEqual(
        Array(2).fill({ name: 'list_api_keys', arguments: { cursor: '17-3' } }),
      );
    });
  });

  test('shows the uses of today, thirty bars with the oldest on the left, quota and limit; what makes no sense is left out', async () => {
    const keyWith = (name: string, more: object) => listOf(name).keys.map((key) => ({ ...key, id: name, ...more }));
    const keys = [
      ...keyWith('used', {
        uses: { today: 1200, last30Days: [1200, 0, 600] },
        quota: { requests: 5000, period: 'day', remaining: 3800 },
        rateLimit: { requests: 100, window: '15m' },
      }),
      ...keyWith('unused', {}),
      ...keyWith('odd', { uses: { today: 1, last30Days: Array(31).fill(1) }, quota: { requests: -1, period: 'day' } }),
    ];
    await withBareHost(browser(), 'api-keys-list', async ({ frame, initialize, post }) => {
      await initialize();
      await post(toolResult({ keys }));
      await frame.getByText('1,800 uses in 30 days, 1,200 today').waitFor();
      const uses = frame.locator('.uses');
      expect(await uses.locator('> span:not(.scale)').allTextContents()).toEqual([
        '1,800 uses in 30 days, 1,200 today',
        'Quota 5,000 a day, 3,800 left',
        'Limit 100 in 15 minutes',
      ]);
      expect(await uses.locator('.scale').textContent()).toBe('1,2000'); // from 1,200 to 0
      const chart = uses.getByRole('img', { name: 'Uses by day, at most 1,200 in one' });
      // Days 28 and 30 of thirty, each three wide.
      expect(await chart.locator('path').getAttribute('d')).toBe('M82.5 22v-11M88.5 22v-22');
      expect(await uses.count()).toBe(1); // of the others nothing is known
    });
  });

  test('shows above the keys what counts for all of them together, with a bar for the quota; and how to make the first', async () => {
    await withBareHost(browser(), 'api-keys-list', async ({ frame, initialize, post }) => {
      await initialize();
      const ownerWith = (remaining: number) => ({
        ...{ quota: { requests: 5000, period: 'day', remaining }, rateLimit: { requests: 100, window: '1h' } },
        ...{ keysMax: 1, uses: { today: 1200, last30Days: [1200, 0, 600] } },
      });
      await post(toolResult({ ...listOf('one'), owner: ownerWith(3800) }));
      const line = frame.locator('header .uses');
      expect(await line.locator('> span').allTextContents()).toEqual([
        'All your keys together: 1,800 uses in 30 days, 1,200 today',
        '1,200 of 5,000 a day',
        'Limit 100 an hour',
        'At most 1 key',
      ]);
      const bar = line.getByRole('progressbar', { name: 'Quota used' });
      expect(await bar.evaluate((element) => (element as HTMLProgressElement).position)).toBe(0.24);
      const colorOf = (of: typeof bar) => of.evaluate((element) => getComputedStyle(element).color);
      const color = await colorOf(bar);
      await post(toolResult({ ...listOf('one'), owner: ownerWith(0) })); // whatever the keys that are there have used
      const spent = await colorOf(line.getByText('5,000 of 5,000 a day'));
      expect(spent).not.toBe(color);
      expect(await colorOf(bar)).toBe(spent);
      await post(toolResult(listOf()));
      await frame.getByRole('heading', { name: 'No API keys yet' }).waitFor();
      await frame.getByText('Create an API key named').waitFor();
    });
  });

  test('offers no call where the host does not let widgets call tools', async () => {
    await withBareHost(browser(), 'api-keys-list', async ({ frame, initialize, post }) => {
      await initialize();
      await post(toolResult({ ...listOf('newest'), nextCursor: '17-3' }));
      await frame.getByRole('button', { name: 'More about newest' }).click();
      await frame.getByText('Id', { exact: true }).waitFor();
      const calls = frame.getByRole('button', { name: /^(Rotate|Revoke|Delete) |^Show more$/ });
      expect(await calls.allTextContents()).toEqual([]);
    });
  });
});
