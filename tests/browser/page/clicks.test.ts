// How many clicks a person needs in a browser until a client that a document names can call.

import { expect, test } from 'bun:test';
import type { Locator } from 'playwright-core';
import { describeInBrowser, takePage } from '../../support/browser.ts';
import { serveDocuments, trustAll } from '../../support/client-documents.ts';
import { register } from '../../support/hand-over.ts';
import { beside } from './customer-app.ts';

const REDIRECT = 'https://client.example/back';

describeInBrowser('a client that a document names', (browser) => {
  test('calls after four clicks, of which one is the app’s own sign-in; connected again, after three', async () => {
    await using vendor = serveDocuments();
    const id = `${vendor.origin}/client.json`;
    vendor.documents.set('/client.json', () => Response.json({ client_id: id, redirect_uris: [REDIRECT] }));
    await using there = await beside('express', { OAUTH_CLIENTS: id, OAUTH_REDIRECTS: REDIRECT });
    const { app } = there;
    const client = await register(app, [REDIRECT]); // makes the request, under the other id
    using _ = { [Symbol.dispose]: trustAll() };
    await using taken = await takePage(browser());
    const { page } = taken;
    await page.route(`${REDIRECT}**`, (route) => route.fulfill({ body: 'connected' }));
    let clicks = 0;
    const click = async (what: Locator) => {
      await what.click();
      clicks += 1;
    };
    for (const isFirst of [true, false]) {
      await page.goto(client.page({ client_id: id, scope: 'read' }).href);
      await click(page.getByRole('link', { name: 'Make a key for this connection' }));
      await click(page.getByRole('button', { name: /^Sign in at/ }));
      if (isFirst) await click(page.getByRole('link', { name: 'alice' }));
      await click(page.getByRole('button', { name: 'Make the key and hand it over' }));
      await page.waitForURL((url) => url.origin === new URL(REDIRECT).origin);
      const code = new URL(page.url()).searchParams.get('code') ?? '';
      const { body } = await client.redeem(code, { client_id: id });
      expect((await app.useKey(String(body.access_token))).body.owner).toBe('alice');
      expect(clicks).toBe(isFirst ? 4 : 7);
    }
  });
});
