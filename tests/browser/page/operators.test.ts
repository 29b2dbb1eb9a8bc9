// The operators' part of the page /keys: owners and their plans, the keys of all owners, and the search, of which no key
// leaves the page.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { confirm, describeInBrowser, press } from '../../support/browser.ts';
import { childOf } from '../../support/children.ts';
import { postJson } from '../../support/client.ts';
import { ADMINS, adminOf, bearer, fingerprint, listedKeys } from '../../support/test-app.ts';
import { adminLink, appForBrowser, find, follow, holdBack, link, said, sentBy, withKeysPage } from './keys-page.ts';

describeInBrowser('an admin without keys', (browser) => {
  test('begins at the owners, opens one, and sees why it is refused: plan, uses, quota, and the trail', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    const { key } = await app.createKey('acme', { name: 'production' });
    await app.createKey('other corp', { name: 'theirs' });
    await app.call(
      'admin_update_owner',
      { owner: 'acme', quota: '3/day', metadata: { plan: 'pro' } },
      await adminOf(app, 'carol'),
    );
    app.clock.advance(1100);
    for (let call = 0; call < 3; call++) expect((await app.useKey(key)).status).toBe(200);
    expect((await app.useKey(key)).status).toBe(429);
    app.clock.advance(4000);
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      const owners = page.getByRole('list', { name: 'Owners' });
      await owners.getByText('1 of 1,000 keys').first().waitFor();
      expect(await owners.getByRole('listitem').count()).toBe(2);
      await owners.getByText('3 of 3 a day').waitFor();
      await press(page, 'Open acme');
      const owner = page.getByRole('region', { name: 'Owner acme' });
      await owner.getByText('plan=pro').waitFor();
      await owner.getByText('0 left').waitFor();
      await owner.getByText(/^Quota changed, data changed by carol/).waitFor();
      await page.getByText('Keys of acme').waitFor();
      expect(await page.getByText('of acme', { exact: true }).count()).toBe(0); // the heading says so
      await press(page, 'More about production');
      await page.getByText(/^Made by acme, .*, from 127\.0\.0\.1$/).waitFor();

      await press(page, '← Owners');
      await owners.getByText('plan').first().waitFor({ state: 'detached' });
      expect(await page.evaluate(() => document.activeElement?.ariaLabel)).toBe('Open acme');
      await press(page, 'Your keys');
      await page.getByText('No API keys yet').waitFor();
    });
    expect(await app.logText()).toContain('Trail read by an admin');
  });

  test('who has begun a key before the part for operators is there goes on with it', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    await withKeysPage(browser(), app, {}, async ({ page }) => {
      const release = await holdBack(page, '**/keys/operators.js');
      await follow(page, await adminLink(app));
      await press(page, 'Create a key');
      await page.getByRole('textbox', { name: 'Name' }).fill('begun before');
      release();
      await page.getByRole('button', { name: 'Owners', exact: true }).waitFor();
      expect(await page.getByRole('textbox', { name: 'Name' }).inputValue()).toBe('begun before');
    });
  });

  test('whom an answer about another owner reaches keeps the focus where it is', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    for (const owner of ['acme', 'other corp']) await app.createKey(owner, { name: 'production' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      const mayEnd = Promise.withResolvers<void>();
      await page.route('**/tools/admin_update_owner', async (route) => {
        if (route.request().postDataJSON().blocked === true) await mayEnd.promise;
        await route.continue();
      });
      await press(page, 'Open acme');
      await press(page, 'Block');
      await press(page.getByRole('group', { name: 'Block acme?' }), 'Block');
      await press(page, '← Owners');
      await press(page, 'Open other corp');
      await page.getByRole('heading', { name: 'Keys of other corp' }).waitFor();
      const isDone = page.waitForRequest(
        (request) => request.url().endsWith('/keys/events') && request.postDataJSON().owner === 'acme',
      );
      mayEnd.resolve();
      await isDone;
      expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('other corp');
      await press(page, '← Owners');
      await page.getByRole('list', { name: 'Owners' }).getByText('Blocked').waitFor();
    });
  });

  test('changes a plan by what was touched alone, and is asked again where another admin was there meanwhile', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    await app.createKey('acme', { name: 'production' });
    const set = async (more: object) =>
      app.call('admin_update_owner', { owner: 'acme', ...more }, await adminOf(app, 'carol'));
    const note = ' for = us \nplan=none '; // as it was set by a command
    const shownNote = note.replace('\n', '↵');
    await set({ quota: '3/day', metadata: { plan: 'pro', note } });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      const sent: unknown[] = [];
      page.on('request', (request) => {
        const body = request.url().endsWith('/tools/admin_update_owner') ? request.postDataJSON() : {};
        if (Object.keys(body).length > 1) sent.push(body);
      });
      await press(page, 'Open acme');
      await press(page, 'Change the plan: acme');
      const buttons = page.getByRole('region', { name: 'Owner acme' }).getByRole('button');
      expect(await buttons.allTextContents()).toEqual(['← Owners', 'Save', 'Cancel']);
      await page.getByLabel('Quota', { exact: true }).fill('50');
      await set({ metadata: { plan: 'gold', note }, keysMax: 5 });
      await press(page, 'Save');
      await page
        .getByRole('alert')
        .getByText(/Data: was .*plan=pro\u2069, is .*plan=gold/)
        .waitFor();
      expect(sent).toEqual([]);
      await press(page, 'Save');
      await page.getByText('0 of 50 a day').waitFor();
      expect(sent).toEqual([{ owner: 'acme', quota: { requests: 50, period: 'day' } }]);
      await page.getByText('plan=gold').waitFor();
      expect(await page.evaluate(() => document.activeElement?.ariaLabel)).toBe('Change the plan: acme');

      await press(page, 'Change the plan: acme');
      await press(page, 'Save');
      await page.getByRole('alert').getByText('Nothing is changed yet.').waitFor();
      await page.getByLabel('Data').fill('no name here');
      await press(page, 'Save');
      await page.getByRole('alert').getByText('Data needs a name').waitFor();
      await page.getByLabel('Data').fill(`plan = a = b\n\nnote=${shownNote}\nsince=2026`);
      await page.getByLabel('Quota', { exact: true }).fill('');
      await press(page, 'Save');
      await page
        .locator('dd')
        .getByText(/plan=a = b, since=2026/)
        .waitFor();
    });
    const { body } = await set({});
    expect(body).toMatchObject({ quota: null, keysMax: 5, metadata: { plan: 'a = b', note, since: '2026' } });
  });

  test('blocks and unblocks an owner and revokes all keys, after a question that says what stays', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    const { key } = await app.createKey('acme', { name: 'production' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await press(page, 'Open acme');
      const owner = page.getByRole('region', { name: 'Owner acme' });
      await press(page, 'Block');
      const question = page.getByRole('group', { name: 'Block acme?' });
      await question.getByText('1 key and all user tokens are refused').waitFor();
      expect(await question.getByRole('button').allTextContents()).toEqual(['Block', 'Cancel']);
      await question.getByRole('button', { name: 'Block' }).click();
      await owner.getByText('Blocked', { exact: true }).first().waitFor();
      expect((await app.useKey(key)).status).toBe(401);
      await owner.getByText(/^Blocked by carol/).waitFor();
      await press(page, 'Unblock');
      await page.getByRole('group', { name: 'Unblock acme?' }).getByRole('button', { name: 'Unblock' }).click();
      await page.getByRole('button', { name: 'Block', exact: true }).waitFor();
      expect((await app.useKey(key)).status).toBe(200);
      await press(page, 'Revoke all keys');
      const all = page.getByRole('group', { name: 'Revoke all of acme?' });
      await all.getByText('He can make new ones; block him to prevent that.').waitFor();
      await all.getByRole('button', { name: 'Revoke all' }).click();
      await said(page, '1 key revoked');
      await page.getByText('Revoked', { exact: true }).first().waitFor();
      expect((await app.useKey(key)).status).toBe(401);

      await find(page, 'Owner, exactly', 'carol'); // herself
      await page.getByRole('button', { name: 'Change the plan: carol' }).waitFor();
      expect(await page.getByRole('button', { name: 'Block', exact: true }).count()).toBe(0);
    });
  });

  test('reads that a quota is used up once nothing is left of it, and not before', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    await app.createKey('acme');
    const quota = { requests: 1000, period: 'day' };
    await app.call('admin_update_owner', { owner: 'acme', quota }, await adminOf(app, 'carol'));
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      let used = 0;
      await page.route('**/tools/admin_list_owners', async (route) => {
        const response = await route.fetch();
        const { owners } = await response.json();
        await route.fulfill({ json: { owners: [{ ...owners[0], quotaShare: used / quota.requests }] } });
      });
      for (const [now, percent] of [
        [997, 99],
        [799, 79],
        [290, 29],
        [1000, 100],
      ] as const) {
        used = now;
        await press(page, 'Owners');
        await page.getByText(`${used.toLocaleString('en')} of 1,000 a day, ${percent} %`).waitFor();
      }
    });
  });

  test('is asked two things at once, each in its own words', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    await app.createKey('acme', { name: 'production' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await press(page, 'Open acme');
      await press(page, 'More about production');
      await press(page, 'Block');
      await press(page, 'Revoke production');
      const described = (question: string) =>
        page
          .getByRole('group', { name: question })
          .getByRole('button', { name: 'Cancel' })
          .evaluate((button) => document.getElementById(button.getAttribute('aria-describedby') ?? '')?.textContent);
      expect(await described('Block acme?')).toStartWith('Block acme?');
      expect(await described('Revoke production?')).toStartWith('Revoke production?');
    });
  });

  test('changes any key, ends what it has made, and opens its owner from all keys', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    const { key, id } = await app.createKey('acme', { name: 'production', scopes: ['read', 'delegate'] });
    const child = await childOf(app, key, { client_name: 'an agent' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await press(page, 'All keys');
      await page.getByText('of acme').waitFor();
      await press(page, 'More about production');
      await confirm(page, 'End', 'an agent');
      await page.getByText('All have ended.').waitFor();
      expect((await app.useKey(child.key)).status).toBe(401);
      await press(page, 'Change: production');
      await page.getByRole('textbox', { name: 'Name' }).fill('renamed');
      await page.getByLabel('delegate').uncheck();
      await page.getByLabel('Expires').selectOption('in 30 days');
      await page.getByLabel('Data').fill('env=prod');
      await press(page, 'Save');
      await page.getByText('Data: env=prod').waitFor();
      const [changed] = await listedKeys(app, 'acme');
      expect(changed).toMatchObject({ id, name: 'renamed', scopes: ['read'] });
      expect(Math.round((changed.expiresAt - app.clock.nowMs()) / 86_400_000)).toBe(30);
      await press(page, 'Open the owner acme');
      await page.getByRole('region', { name: 'Owner acme' }).getByText('1 of 1,000').waitFor();
    });
  });

  test('looks for trouble by a button, and reads how far', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    await app.createKey('acme', { name: 'never' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page, requests }) => {
      await press(page, 'All keys');
      await press(page, 'Never expire'); // the others are in for-support.test.ts
      await page.getByText('1 found; looked through 1 key', { exact: true }).waitFor();
      await page.route('**/tools/admin_list_keys', (route) =>
        route.fulfill({ json: { keys: [], looked: 10_000, nextCursor: '1' } }),
      );
      const before = requests.length;
      await press(page, 'Unused for 90 days');
      await page.getByText('0 found; looked through 10,000 keys so far').waitFor();
      await press(page, 'Look further');
      await page.getByText('0 found; looked through 20,000 keys so far').waitFor();
      expect(requests.length - before).toBe(2);
    });
  });
});

describeInBrowser('with the keyboard alone, at 390 px', (browser) => {
  test('an owner is looked into and gets a bigger plan, and a leaked key is found and ended; the focus is never lost', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    const { key } = await app.createKey('acme', { name: 'leaked' });
    await app.createKey('acme', { name: 'another' });
    await app.call('admin_update_owner', { owner: 'acme', quota: '3/day' }, await adminOf(app, 'carol'));
    const phone = { viewport: { width: 390, height: 844 } };
    await withKeysPage(browser(), app, { ...(await adminLink(app)), ...phone }, async ({ page }) => {
      const focused = () =>
        page.evaluate(() => {
          const { activeElement: element } = document;
          if (element === null || element === document.body) throw new Error('nothing has the focus');
          return element.ariaLabel ?? (element.textContent?.trim() || element.id);
        });
      const reach = async (name: string) => {
        for (let tabs = 0; tabs < 60 && (await focused()) !== name; tabs++) await page.keyboard.press('Tab');
        expect(await focused()).toBe(name);
      };
      await page.getByRole('button', { name: 'Open acme' }).waitFor();
      await reach('Open acme');
      await page.keyboard.press('Enter');
      await page.getByText('3 left').waitFor();
      expect(await focused()).toBe('acme');
      await reach('Change the plan: acme');
      await page.keyboard.press('Enter');
      await reach('quota-plan');
      await page.keyboard.press('Control+A');
      await page.keyboard.type('50');
      await page.keyboard.press('Enter');
      await page.getByText('50 left').waitFor();
      expect(await focused()).toBe('Change the plan: acme');

      await page.getByLabel('Search for').focus();
      await page.keyboard.press('End'); // the last of the three
      await page.evaluate((copied) => navigator.clipboard.writeText(copied), key);
      await page.keyboard.press('Tab');
      await page.keyboard.press('Control+V');
      await page.getByRole('button', { name: 'More about leaked', expanded: true }).waitFor();
      expect(await focused()).toBe('Details of leaked');
      await page.keyboard.press('Enter'); // by habit, after the key
      expect(await focused()).toBe('Details of leaked');
      await page.keyboard.press('Tab');
      expect(await focused()).toBe('Change: leaked');
      for (const name of ['More about leaked', 'Revoke leaked']) {
        await page.keyboard.press('Shift+Tab');
        expect(await focused()).toBe(name);
      }
      await page.keyboard.press('Enter');
      expect(await focused()).toBe('Cancel');
      await page.keyboard.press('Shift+Tab');
      await page.keyboard.press('Enter');
      await said(page, 'API key revoked');
      expect(await focused()).toBe('More about leaked');
      expect((await app.useKey(key)).status).toBe(401);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
    });
  });
});

describeInBrowser('what could not be read', (browser) => {
  test('is a complaint wherever it is told: owners, an owner, keys, a history, a search; gone with the next success', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    const { key } = await app.createKey('acme', { name: 'parent', scopes: ['read', 'delegate'] });
    await childOf(app, key, { client_name: 'an agent' });
    await withKeysPage(browser(), app, { ...(await adminLink(app)), quiet: true }, async ({ page }) => {
      const alerts = page.getByRole('alert');
      const alerted = async (...told: string[]) => {
        await alerts.nth(told.length - 1).waitFor();
        expect(await alerts.allTextContents()).toEqual(told);
      };
      const again = 'No answer came. Try again.';
      const away = () => page.route(/tools|events/, (route) => route.abort());
      const back = () => page.unroute(/tools|events/);
      await page.getByRole('button', { name: 'Open acme' }).waitFor();
      await away();
      await press(page, 'Refresh');
      await alerted(`The owners could not be listed. ${again}`);
      await back();
      await press(page, 'Open acme');
      await press(page, 'More about parent');
      await page.getByRole('button', { name: 'End an agent' }).waitFor();
      await page.getByText(/^Made by acme/).waitFor();
      expect(await alerts.count()).toBe(0);
      await press(page, 'More about parent');
      await away();
      await press(page, 'More about parent');
      await press(page, 'Refresh');
      const all = [expect.stringContaining('No answer came.'), again, `The list could not be refreshed. ${again}`];
      await alerted(...all, again, again);
      await find(page, 'Key id or fingerprint', '0'.repeat(32));
      await alerted(again, ...all, again, again);
      await back();
      await press(page, 'Refresh');
      await press(page, 'Find');
      await said(page, 'No key of any owner.');
      await alerts.first().waitFor({ state: 'detached' });
    });
  });
});

describeInBrowser('the choice of keys that end soon', (browser) => {
  test('says that it is sorted by their ends, and all keys by when they were made', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    for (const days of [5, 3, 1, 2, 6, 4, 5, 3]) {
      await app.createKey('acme', { name: `in ${days} days`, expiresInDays: days });
    }
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      const order = page.getByLabel('Sort by');
      await press(page, 'All keys');
      await page.getByText('8 keys', { exact: true }).waitFor();
      expect(await order.inputValue()).toBe('created');
      await press(page, 'Expire within 7 days');
      await page.getByText('8 found; looked through 8 keys').waitFor();
      expect(await order.inputValue()).toBe('expires');
      expect(
        await page
          .getByRole('button', { name: /^More about/ })
          .first()
          .getAttribute('aria-label'),
      ).toBe('More about in 1 days');
      await order.selectOption('name');
      await press(page, 'All');
      await page.getByText('8 keys', { exact: true }).waitFor();
      expect(await order.inputValue()).toBe('created');
    });
  });
});

describeInBrowser('the search of the operators', (browser) => {
  test('finds by owner, id, fingerprint and whole key; nothing of a key leaves the page', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    const { key, id } = await app.createKey('acme', { name: 'leaked' });
    const { key: parent } = await app.createKey('acme', { name: 'parent', scopes: ['read', 'delegate'] });
    const child = await childOf(app, parent, { client_name: 'an agent' });
    const foreign = 'acme.Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5';
    const file = join(app.folder, 'keys.jsonl');
    const line = {
      userId: 'other corp',
      name: 'from before',
      keyHash: Bun.SHA256.hash(foreign, 'hex'),
      scopes: ['read'],
      foreign: true,
    };
    await Bun.write(file, `${JSON.stringify(line)}\n`);
    await app.keys('import', file);
    const unknown = [`sk_live_${'0'.repeat(64)}`, `X-API-Key: sk_test_${'1'.repeat(64)}`];
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      const sent = sentBy(page);
      const opened = (name: string) =>
        page.getByRole('button', { name: `More about ${name}`, expanded: true }).waitFor();
      const field = page.getByRole('search').getByRole('textbox');
      await page.getByRole('list', { name: 'Owners' }).waitFor();
      expect(await page.getByLabel('Search for').inputValue()).toBe('owner');
      for (const [meaning, text] of [
        ['Key id or fingerprint', ` ${id.toUpperCase()} `],
        ['Key id or fingerprint', fingerprint(key)],
        ['A whole key', key],
        ['Owner, exactly', key], // whatever the choice
        ['Key id or fingerprint', `  ${key} `],
      ] as const) {
        await find(page, meaning, text);
        await opened('leaked');
        await press(page, 'Owners');
      }
      await find(page, 'A whole key', child.key);
      await opened('parent');
      await said(page, 'What you looked for is a key that it has made for a program.');
      await find(page, 'A whole key', foreign);
      await opened('from before');
      expect(await field.inputValue()).toBe('');
      for (const text of unknown) {
        await page.getByLabel('Search for').selectOption('Owner, exactly');
        await field.fill(text); // it is gone at once
        await said(page, 'No key of any owner.');
        expect(await field.inputValue()).toBe('');
      }
      const cut = key.slice(0, -1);
      for (const meaning of ['Owner, exactly', 'Key id or fingerprint']) {
        await find(page, meaning, cut);
        await said(page, 'This was not sent. It is not a whole key of this server');
        expect(await field.inputValue()).toBe('');
      }
      await find(page, 'A whole key', 'an email@example.com and spaces');
      await said(page, 'No key of any owner.');
      await find(page, 'Key id or fingerprint', foreign);
      await said(page, 'An id has 32 hex digits, and a fingerprint 12.');
      await find(page, 'Owner, exactly', 'x'.repeat(100_000));
      await said(page, 'An owner has at most 255 characters.');
      const secrets = [cut, child.key, foreign, ...unknown, 'email@example.com', 'x'.repeat(300)];
      expect(sent.filter((text) => secrets.some((secret) => text.includes(secret)))).toEqual([]);
    });
    const looks = (await app.log()).filter(({ event, keyId }) => event === 'Trail read by an admin' && keyId === id);
    expect(looks).toHaveLength(5); // one for each time that the row was opened
  });
});

describeInBrowser('people without the claim', (browser) => {
  test('get nothing of it, and an admin whose claim is taken away reads so and loses nothing', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    await app.createKey('alice', { name: 'one' });
    await withKeysPage(browser(), app, await link(app), async ({ page, requests }) => {
      await page.getByText('1 key', { exact: true }).waitFor();
      expect(requests).toEqual([`GET ${app.url}/keys`, `POST ${app.url}/tools/list_api_keys`]);
      expect(await page.getByRole('group', { name: 'Whose keys' }).count()).toBe(0);
    });
    const asked = await postJson(`${app.url}/keys/events`, { owner: 'alice' }, await bearer(app, 'alice'));
    expect(asked.status).toBe(403);

    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await press(page, 'Open alice');
      await page.getByRole('button', { name: 'Change the plan: alice' }).click();
      await page.getByLabel('Data').fill('plan=pro');
      const problem = { status: 403, code: 'admin_required', detail: 'Only admins may do this' };
      await page.route('**/tools/admin_*', (route) => route.fulfill({ status: 403, json: problem }));
      await press(page, 'Save');
      await page.getByRole('alert').getByText('Only admins may do this').waitFor();
      expect(await page.getByLabel('Data').inputValue()).toBe('plan=pro');
    });
    await using without = await appForBrowser();
    expect((await fetch(`${without.url}/keys/operators.js`)).status).toBe(404);
    for (const { url } of [app, without]) {
      const page = await (await fetch(`${url}/keys`)).text(); // all that others load
      for (const part of ['admin_list_owners', 'admin_update_owner', 'Change the plan', 'Expire within'])
        expect(page).not.toContain(part);
    }
  });
});
