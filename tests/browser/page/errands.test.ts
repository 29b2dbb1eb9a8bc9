// What people read and press on the page /keys while they look into something: a found key, an owner that nobody is, a
// quota that is used up, a saved edit, a key pasted where none belongs.

import { expect, test } from 'bun:test';
import type { Locator, Page } from 'playwright-core';
import { confirm, describeInBrowser, press } from '../../support/browser.ts';
import { ADMINS, adminOf, bearer, type TestApp } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';
import { adminLink, appForBrowser, find, link, paste, said, sentBy, withKeysPage } from './keys-page.ts';

const env = ADMINS;
const setOwner = async (app: TestApp, owner: string, more: object) =>
  app.call('admin_update_owner', { owner, ...more }, await adminOf(app, 'carol'));
const isOpen = (page: Page, name: string) =>
  page.getByRole('button', { name: `More about ${name}`, expanded: true }).waitFor();
const focused = (page: Page) =>
  page.evaluate(() => document.activeElement?.ariaLabel ?? document.activeElement?.textContent);

describeInBrowser('an edit that is saved', (browser) => {
  test('says what each field was, as no event does: of an owner and of a key', async () => {
    await using app = await appForBrowser({ env });
    await app.createKey('acme', { name: 'production', quota: { requests: 7, period: 'month' } });
    await setOwner(app, 'acme', { quota: '3/day', metadata: { plan: 'pro' } });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await press(page, 'Open acme');
      await press(page, 'Change the plan: acme');
      await page.getByLabel('Quota', { exact: true }).fill('50');
      await page.getByLabel('Data').fill('plan=gold');
      await press(page, 'Save');
      await said(
        page,
        /Quota: was 3 a day, is 50 a day; Data: was \u2068plan=pro\u2069, is \u2068plan=gold\u2069\. Note what it was/,
      );
      await press(page, 'More about production');
      await press(page, 'Change: production');
      await page.getByLabel('Quota', { exact: true }).fill('9');
      await press(page, 'Save');
      await said(page, 'Quota: was 7 a month, is 9 a month.');
    });
  });

  test('says a name of another direction apart from the words around it', async () => {
    await using app = await appForBrowser({ env });
    await app.createKey('acme', { name: '\u2069\u202egnillib' }); // it would also end what sets it apart
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await press(page, 'All keys');
      await page.getByRole('button', { name: /^More about/ }).click();
      await page.getByRole('button', { name: /^Change: / }).click();
      await page.getByRole('textbox', { name: 'Name' }).fill('billing');
      await press(page, 'Save');
      await said(page, 'Saved. Name: was \u2068\u202egnillib\u2069, is \u2068billing\u2069. Note what it was');
    });
  });

  test('is typed over: its first field is selected, and so is one after a double click beside its number', async () => {
    await using app = await appForBrowser({ env });
    const { id } = await app.createKey('acme', { name: 'production', rateLimit: { requests: 5, window: '1m' } });
    await setOwner(app, 'acme', { quota: '50/day', rateLimit: '10/1m' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await press(page, 'Open acme');
      await press(page, 'Change the plan: acme');
      await page.keyboard.type('7');
      expect(await page.getByLabel('Quota', { exact: true }).inputValue()).toBe('7');
      const typeAfterTwoClicks = async (field: Locator) => {
        const { width = 0, height = 0 } = (await field.boundingBox()) ?? {};
        await field.dblclick({ position: { x: width / 2, y: height / 2 } });
        await page.keyboard.type('8');
        return field.inputValue();
      };
      for (const name of ['Quota', 'Rate limit', 'Keys, at most']) {
        expect(await typeAfterTwoClicks(page.getByLabel(name, { exact: true }))).toBe('8');
      }
      await press(page, 'Cancel');
      await press(page, 'More about production');
      await press(page, 'Change: production');
      await page.keyboard.type('new name');
      expect(await page.getByRole('textbox', { name: 'Name' }).inputValue()).toBe('new name');
      expect(await typeAfterTwoClicks(page.locator(`#limit-${id}`))).toBe('8');
    });
    await withKeysPage(browser(), app, await link(app, 'acme'), async ({ page }) => {
      await press(page, 'More about production');
      await press(page, 'Rename: production');
      await page.keyboard.type('renamed');
      await page.keyboard.press('Enter');
      await page.getByRole('button', { name: 'More about renamed' }).waitFor();
    });
  });
});

describeInBrowser('a key that is pasted where none belongs', (browser) => {
  test('into the search of a list of others’ keys is found as in the search above, and is sent nowhere', async () => {
    await using app = await appForBrowser({ env });
    const { key } = await app.createKey('acme', { name: 'leaked' });
    const { key: other } = await app.createKey('other corp', { name: 'theirs' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      const sent = sentBy(page);
      const filter = page.getByRole('searchbox');
      await press(page, 'All keys');
      await paste(page, filter, `X-API-Key: ${key}`);
      await page.getByRole('region', { name: 'Owner acme' }).waitFor();
      await isOpen(page, 'leaked');
      await said(page, 'It is “\u2068leaked\u2069”, active.');
      await paste(page, filter, other); // into the list of an owner
      await page.getByRole('region', { name: 'Owner other corp' }).waitFor();
      await isOpen(page, 'theirs');
      await press(page, 'All keys');
      await paste(page, filter, `sk_live_${'0'.repeat(64)}`);
      await said(page, 'No key of any owner.');
      expect(await filter.inputValue()).toBe('');
      const [part] = key.match(/[0-9a-f]{20}/) ?? [''];
      expect(sent.filter((text) => [part, '0'.repeat(20)].some((secret) => text.includes(secret)))).toEqual([]);
    });
  });

  test('into the search of one’s own keys is found within other text, too; a part of one reads that it is none', async () => {
    await using app = await appForBrowser();
    const { key } = await app.createKey('alice', { name: 'mine' });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page, requests }) => {
      const sent = sentBy(page);
      await page.getByText('1 key', { exact: true }).waitFor();
      const filter = page.getByRole('searchbox');
      await paste(page, filter, `Authorization: Bearer ${key}`);
      await isOpen(page, 'mine');
      await said(page, 'It is “\u2068mine\u2069”, active.');
      expect(await filter.inputValue()).toBe('');
      await paste(page, filter, key.slice(0, -3));
      await said(page, /^None of your keys: .* It is not a whole key of this server/);
      expect(await filter.inputValue()).toBe('');
      expect(requests.filter((request) => !/list_api_keys|keys\/events|\/keys$/.test(request))).toEqual([]);
      expect(sent.filter((text) => text.includes(key.slice(8, 30)))).toEqual([]);
    });
  });

  test('into a name or data is taken out at once', async () => {
    await using app = await appForBrowser({ env });
    const { key } = await app.createKey('acme', { name: 'production' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      const sent = sentBy(page);
      await press(page, 'Open acme');
      await press(page, 'Change the plan: acme');
      const data = page.getByLabel('Data');
      await data.fill('plan=pro\nkey=');
      await data.press('Control+End');
      await paste(page, data, key);
      await page.getByRole('alert').getByText('That was a whole key.').waitFor();
      expect(await data.inputValue()).toBe('plan=pro\nkey=');
      await data.press('Home');
      await paste(page, data, `${key} and ${key}`);
      expect(await data.inputValue()).toBe('plan=pro\n and key=');
      await page.getByRole('alert').getByText('That was a whole key.').waitFor();
      await data.press('Backspace');
      await page.getByRole('alert').waitFor({ state: 'detached' }); // it was read
      await press(page, 'Your keys');
      await press(page, 'Create a key');
      const name = page.getByRole('textbox', { name: 'Name' });
      await paste(page, name, `my ${key}`);
      await page.getByRole('alert').getByText('That was a whole key.').waitFor();
      expect(await name.inputValue()).toBe('my ');
      await press(page, 'Cancel');
      expect(await page.getByRole('alert').count()).toBe(0);
      expect(sent.filter((text) => text.includes(key))).toEqual([]);
    });
  });

  test('is said to be taken out where the person sees it, however far down the field is', async () => {
    await using app = await appForBrowser();
    const { key } = await app.createKey('alice', { name: 'the oldest' });
    for (let more = 0; more < 20; more += 1) await app.createKey('alice', { name: `key ${more}` });
    const phone = { viewport: { width: 390, height: 700 } };
    await withKeysPage(browser(), app, { ...(await link(app)), ...phone }, async ({ page }) => {
      await press(page, 'More about the oldest');
      await press(page, 'Rename: the oldest');
      await paste(page, page.getByRole('textbox', { name: 'Name' }), key);
      const notice = page.getByRole('alert').filter({ hasText: 'That was a whole key.' });
      await notice.waitFor();
      const isSeen = await notice.evaluate((alert) => {
        const { x, y, width, height } = alert.getBoundingClientRect();
        return alert.contains(document.elementFromPoint(x + width / 2, y + height / 2));
      });
      expect(isSeen).toBe(true);
    });
  });
});

describeInBrowser('data with a name twice', (browser) => {
  test('is not saved as one of the two: the form says so', async () => {
    await using app = await appForBrowser({ env });
    await app.createKey('acme', { name: 'production' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      const sent = sentBy(page);
      await press(page, 'Open acme');
      await press(page, 'Change the plan: acme');
      await page.getByLabel('Data').fill('plan=pro\nsince=2026\n plan = gold');
      await press(page, 'Save');
      await page.getByRole('alert').getByText('Data has the name plan twice.').waitFor();
      expect(sent.filter((text) => text.includes('gold'))).toEqual([]);
    });
  });
});

describeInBrowser('a key that is looked for', (browser) => {
  test('is named above the list with its state, and one that has ended has a button before those of other keys', async () => {
    await using app = await appForBrowser({ env });
    await app.createKey('acme', { name: 'next' });
    const { key, id } = await app.createKey('acme', { name: 'ended' });
    await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'acme'));
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await page.getByRole('list', { name: 'Owners' }).waitFor();
      await page.getByRole('search').getByRole('textbox').fill(key); // which is enough
      await said(page, 'It is “\u2068ended\u2069”, revoked.');
      expect(await focused(page)).toBe('Details of ended');
      await page.keyboard.press('Tab');
      expect(await focused(page)).toBe('Close ended');
      await page.keyboard.press('Enter');
      expect(await focused(page)).toBe('More about ended');
      expect(await page.getByRole('button', { name: 'More about ended', expanded: false }).count()).toBe(1);
    });
  });

  test('is in the middle of the window once all is there, though the owner and other keys come above it', async () => {
    await using app = await appForBrowser({ env });
    const others = async () => {
      for (let other = 0; other < 8; other += 1) await app.createKey('acme', { name: `other ${other}` });
    };
    await others();
    const { key } = await app.createKey('acme', { name: 'leaked' });
    await others();
    const laptop = { viewport: { width: 1280, height: 700 } };
    await withKeysPage(browser(), app, { ...(await adminLink(app)), ...laptop }, async ({ page }) => {
      await page.getByRole('search').getByRole('textbox').fill(key);
      await page.getByText('17 keys', { exact: true }).waitFor();
      await page.getByText('What happened to a key is in the history of its own row').waitFor();
      await waitFor(async () => {
        const { y = 0 } = (await page.getByRole('button', { name: 'Revoke leaked' }).boundingBox()) ?? {};
        return y > 200 && y < 500;
      });
      expect(await focused(page)).toBe('Details of leaked');
    });
  });

  test('by an id reads under “A whole key” that it is another choice', async () => {
    await using app = await appForBrowser({ env });
    const { id } = await app.createKey('acme', { name: 'production' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await page.getByRole('list', { name: 'Owners' }).waitFor();
      await find(page, 'A whole key', id);
      await said(page, 'No key of any owner. An id or a fingerprint is another choice.');
    });
  });

  test('is named in its state no more once it is revoked', async () => {
    await using app = await appForBrowser({ env });
    const { key } = await app.createKey('acme', { name: 'leaked' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await page.getByRole('search').getByRole('textbox').fill(key);
      await said(page, 'It is “\u2068leaked\u2069”, active.');
      await confirm(page, 'Revoke', 'leaked');
      await said(page, 'API key revoked');
      expect(await page.getByText(/^It is/).count()).toBe(0);
    });
  });

  test('is named as it is now, once another person has renamed and revoked it', async () => {
    await using app = await appForBrowser({ env });
    const { key, id } = await app.createKey('acme', { name: 'leaked' });
    await withKeysPage(browser(), app, await link(app, 'acme'), async ({ page }) => {
      await page.getByRole('searchbox').fill(key);
      await said(page, 'It is “\u2068leaked\u2069”, active.');
      await app.call('admin_update_key', { keyId: id, name: 'in a gist' }, await adminOf(app, 'carol'));
      await app.call('admin_revoke_keys', { keyIds: [id] }, await adminOf(app, 'carol'));
      await press(page, 'Refresh');
      await said(page, 'It is “\u2068in a gist\u2069”, revoked.');
    });
  });

  test('and isn’t whole reads that, whichever part is missing', async () => {
    await using app = await appForBrowser({ env });
    const { key } = await app.createKey('acme', { name: 'production' });
    const words = 'No key of any owner. It is not a whole key of this server, which ends with 64 digits, 0 to f.';
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await page.getByRole('list', { name: 'Owners' }).waitFor();
      for (const odd of [key.slice(0, -1), key.slice(0, 14), `${key}0`]) {
        await find(page, 'A whole key', odd);
        await said(page, words);
        await find(page, 'A whole key', 'another form');
        await page.getByText('No key of any owner.', { exact: true }).waitFor();
      }
    });
  });
});

describeInBrowser('an owner who is opened', (browser) => {
  test('and is nobody reads that, and may get a plan all the same', async () => {
    await using app = await appForBrowser({ env });
    await app.createKey('acme', { name: 'production' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await page.getByRole('list', { name: 'Owners' }).waitFor();
      await find(page, 'Owner, exactly', 'Acme');
      await page.getByText('Nobody of exactly this name has a key, or a history').waitFor();
      const owner = page.getByRole('region', { name: 'Owner Acme' });
      expect(await owner.getByText('0 of 1,000').isVisible()).toBe(false);
      expect(await page.getByText('No keys', { exact: true }).count()).toBe(0);
      await owner.getByText('The plan that would hold').click();
      await owner.getByText('0 of 1,000').waitFor();
      await press(page, 'Change the plan: Acme');
      await page.keyboard.type('50');
      await press(page, 'Save');
      await owner.getByText('0 of 50 a day').waitFor();
      await owner.getByText(/^Quota changed by carol/).waitFor();
      await page.getByText('or a history').waitFor({ state: 'detached' });
      await press(page, '← Owners');
      await page.getByRole('button', { name: 'Open Acme', exact: true }).waitFor();
      await page.getByText('0 of 50 a day, 0 %').waitFor();
    });
  });
});

describeInBrowser('a quota that is used up', (browser) => {
  test('says when it begins anew: in the plan, in the row of the key, and to its owner', async () => {
    await using app = await appForBrowser({ env });
    const { key } = await app.createKey('acme', { name: 'production', quota: { requests: 1, period: 'month' } });
    await setOwner(app, 'acme', { quota: '1/day' });
    app.clock.advance(1100);
    expect((await app.useKey(key)).status).toBe(200);
    app.clock.advance(4000);
    /** The times that the page names, read in the browser: both days of a test at midnight are right. */
    const ends = (page: Page) =>
      page.evaluate(() =>
        [...document.querySelectorAll('span.bad time')].map((time) => (time as HTMLTimeElement).dateTime),
      );
    const [today, tomorrow] = [0, 1].map((day) => new Date(Date.now() + day * 86_400_000)) as [Date, Date];
    const nextDays = [tomorrow, new Date(tomorrow.getTime() + 86_400_000)].map(
      (day) => `${day.toISOString().slice(0, 10)}T00:00:00.000Z`,
    );
    const nextMonths = [today, tomorrow].map((day) =>
      new Date(Date.UTC(day.getUTCFullYear(), day.getUTCMonth() + 1)).toISOString(),
    );
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await press(page, 'Open acme');
      await page.getByText(/1 of 1 a day, 0 left, begins anew in/).waitFor();
      await page.getByText(/Quota 1 a month, used up, begins anew in/).waitFor();
      const [day, month] = await ends(page);
      expect(nextDays).toContain(day ?? '');
      expect(nextMonths).toContain(month ?? '');
    });
    await withKeysPage(browser(), app, await link(app, 'acme'), async ({ page }) => {
      await page.getByText(/1 of 1 a day, begins anew in/).waitFor();
    });
    const phone = { viewport: { width: 390, height: 844 } };
    await withKeysPage(browser(), app, { ...(await adminLink(app)), ...phone }, async ({ page }) => {
      await press(page, 'Open acme');
      await page.getByText(/Quota 1 a month, used up, begins anew in/).waitFor(); // in the row, which is closed
    });
  });
});

describeInBrowser('the sign-in', (browser) => {
  test('says how long it lasts', async () => {
    await using app = await appForBrowser();
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      await page.getByText('Signed in as alice').waitFor();
      await page.reload();
      await page.getByText('You are signed in until you close or reload this tab.').waitFor();
    });
  });
});
