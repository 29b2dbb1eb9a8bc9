// The page /keys in Firefox, if there is one: from a link that signs in to the end of a key.

import { expect, test } from 'bun:test';
import { BROWSER_TEST_MS } from '../../support/browser.ts';
import { firefoxPath, startFirefox } from '../../support/firefox.ts';
import { bearer } from '../../support/test-app.ts';
import { appForBrowser } from './keys-page.ts';

const CONTROL = '\ue009'; // WebDriver §17.4.2

test.skipIf(firefoxPath === null)(
  'in Firefox a key is made, copied, found by pasting, and revoked',
  async () => {
    await using app = await appForBrowser();
    await using firefox = await startFirefox(firefoxPath ?? '');
    await firefox.open(`${app.url}/keys#token=${await app.token('alice')}`);
    await firefox.shows('No API keys yet');
    await firefox.click('#name');
    await firefox.type('of a fox');
    await firefox.click('input[name="scopes"][value="read"]');
    await firefox.click('button', 'Create key');
    await firefox.click('[aria-label="API key"] button.solid');
    await firefox.shows('Copied');
    await firefox.click('button', 'I have saved it');
    await firefox.click('input[type="search"]');
    await firefox.type('v', [CONTROL]);
    await firefox.shows('It is this one.');
    await firefox.shows('Made by alice');
    await firefox.click('[aria-label="Revoke of a fox"]');
    await firefox.click('[aria-label="Revoke of a fox?"] button', 'Revoke');
    await firefox.shows('API key revoked successfully');
    const { body } = await app.call('list_api_keys', {}, await bearer(app, 'alice'));
    expect(body.keys).toMatchObject([{ name: 'of a fox', scopes: ['read'], active: false }]);
  },
  BROWSER_TEST_MS,
);
