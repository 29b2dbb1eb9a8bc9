// "For support" in the document of keys: each question, answered on the page by what its row says to click, and by the
// command that stands beside it.

import { expect, test } from 'bun:test';
import { describeInBrowser } from '../../support/browser.ts';
import { databaseOf, openDatabase } from '../../support/database-client.ts';
import { readDocument } from '../../support/documents.ts';
import { keysCommand } from '../../support/keys-command.ts';
import { ADMINS, type TestApp } from '../../support/test-app.ts';
import { adminLink, appForBrowser, find, withKeysPage } from './keys-page.ts';

const ROWS = readDocument('src/keys/README.md').table('For support');
const DAY_MS = 86_400_000;

/** What a row says to click, and the commands that it has. */
function rowOf(question: string) {
  const [, page = '', commands = ''] = ROWS.find(([asked = '']) => asked.startsWith(question)) ?? [];
  return {
    clicks: [...page.matchAll(/(?<!\*)\*([^*]+)\*/g)].map(([, name = '']) => name),
    page,
    commands: [...commands.matchAll(/`(?:bun run keys )?([^`]+)`/g)].map(([, words = '']) => words),
  };
}

/** Types a command of a row, on a file of the app; `put`: what stands for the row's example. */
async function type(app: TestApp, words: string, put: Readonly<Record<string, string>> = {}, stdin = '') {
  const args = words.split(' ').map((word) => put[word] ?? word);
  const { code, stdout, stderr } = await keysCommand({ DATABASE_URL: databaseOf(app) }, args, stdin);
  expect({ args, code, stderr: code === 0 ? '' : stderr }).toEqual({ args, code: 0, stderr: '' });
  return stdout;
}

describeInBrowser('For support', (browser) => {
  test('each question is answered on the page, and by its command', async () => {
    await using app = await appForBrowser({ store: 'embedded', env: ADMINS });
    const { key } = await app.createKey('acme', { name: 'production' });
    const ended = await app.createKey('acme', { name: 'ended' });
    const leaked = await app.createKey('acme', { name: 'leaked', expiresInDays: 3 });
    const headers = { authorization: `Bearer ${await app.token('acme')}` };
    await app.call('revoke_api_key', { keyId: ended.id }, headers);
    await app.keys('owner', 'acme', '--quota', '1/month');
    app.clock.advance(1100);
    expect([(await app.useKey(key)).status, (await app.useKey(key)).status]).toEqual([200, 429]);
    app.clock.advance(4000);
    const { at } = await adminLink(app);
    expect(ROWS).toHaveLength(5);

    await withKeysPage(browser(), app, { at }, async ({ page }) => {
      const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
      const owner = page.getByRole('region', { name: 'Owner acme' });

      const why = rowOf('Why is acme refused?');
      expect(why.clicks).toEqual(['Open']);
      await press('Owners');
      await press('Open acme');
      await owner.locator('progress.bad').waitFor(); // the bar is red
      expect(await owner.getByText('Blocked', { exact: true }).count()).toBe(0);
      await page.getByRole('listitem').filter({ hasText: 'ended' }).getByText('Revoked', { exact: true }).waitFor();
      const more = page.getByRole('button', { name: 'More about ended' });
      expect(await more.textContent()).toBe('…');
      await more.click();
      await page.getByText(/^Revoked by acme/).waitFor();
      const [ofOwner = '', ofKeys = ''] = why.commands;
      expect(await type(app, ofOwner)).toMatch(/^acme +active +\d\/1000 .* 1\/month +100 %/m);
      expect(await type(app, ofKeys)).toMatch(/ended .*revoked|revoked .*ended/);

      const bigger = rowOf('Can acme have more for a week?');
      expect(bigger.clicks).toEqual(['Open', 'Change the plan', 'Save']);
      await press('Change the plan: acme');
      await page.getByLabel('Quota', { exact: true }).fill('50');
      await press('Save');
      await owner.getByText('1 of 50 a month').waitFor();
      app.clock.advance(1100);
      expect((await app.useKey(key)).status).toBe(200);
      await press('Change the plan: acme');
      await page.getByLabel('Quota', { exact: true }).fill('');
      await press('Save');
      await owner.getByText('1 of 50 a month').waitFor({ state: 'detached' });
      const [set = '', back = ''] = bigger.commands;
      expect(await type(app, set)).toContain(' 50000/day ');
      expect(await type(app, `owner acme ${back}`)).not.toContain('50000/day');

      const whose = rowOf('This key was in a public repository');
      expect(whose.clicks).toEqual(['A whole key', 'Revoke']);
      const [show = '', revoke = ''] = whose.commands;
      expect(await type(app, show, {}, `${leaked.key}\n`)).toContain(leaked.id);
      await find(page, 'A whole key', leaked.key);
      await page.getByRole('button', { name: 'More about leaked', expanded: true }).waitFor();
      await press('Revoke leaked');
      await page.getByRole('group', { name: 'Revoke leaked?' }).getByRole('button', { name: 'Revoke' }).click();
      await page.getByRole('status').getByText('API key revoked').waitFor();
      expect((await app.useKey(leaked.key)).status).toBe(401);
      const again = await app.createKey('acme', { name: 'leaked too' });
      expect(await type(app, `${revoke} --yes`, { '<id>': again.id })).toBe(`${again.id}\n`);

      const who = rowOf('Who has ended our key?');
      expect(who.clicks).toEqual([]);
      await find(page, 'Key id or fingerprint', leaked.id);
      await page.getByText(/^Revoked by carol.*127\.0\.0\.1/).waitFor();
      expect(await type(app, who.commands[0] ?? '', { '<id>': leaked.id })).toMatch(/revoked .*carol .*127\.0\.0\.1/);

      const which = rowOf('Which keys end soon');
      expect(which.clicks).toEqual(['All keys', 'Look further']);
      await app.createKey('acme', { name: 'soon', expiresInDays: 3 });
      const forgotten = await app.createKey('acme', { name: 'forgotten' });
      using db = openDatabase(databaseOf(app));
      const args = [Date.now() - 100 * DAY_MS, forgotten.id];
      await db.execute({ sql: 'UPDATE api_keys SET created_at_ms = ? WHERE id = ?', args });
      await db.execute({ sql: 'UPDATE key_events SET at_ms = ? WHERE key_id = ?', args });
      await press('All keys');
      for (const [choice, name] of [
        ['Expire within 7 days', 'soon'],
        ['Never expire', 'production'],
        ['Unused for 90 days', 'forgotten'],
      ] as const) {
        await press(choice);
        await page.getByRole('button', { name: `More about ${name}` }).waitFor();
      }
      const [soon = '', unused = '', wide = '', never = ''] = which.commands;
      expect(await type(app, soon)).toMatch(/ soon /);
      expect(await type(app, `list ${unused}`)).toMatch(/ forgotten /);
      const [head = '', ...rows] = (await type(app, `list ${wide}`)).split('\n');
      const endOf = (name: string) =>
        rows
          .find((row) => row.includes(` ${name} `))
          ?.slice(head.indexOf('EXPIRES'))
          .split(' ')[0];
      expect([endOf('production'), endOf('soon')]).toEqual([never, expect.stringMatching(/^\d{4}-/)]);
    });
  });
});
