// Signing in at an issuer from the page /keys: at a certified one, and at one that a test makes wrong.

import { expect, test } from 'bun:test';
import type { Page } from 'playwright-core';
import { describeInBrowser } from '../../support/browser.ts';
import { inRest, rows } from '../../support/everything.ts';
import { createIssuer } from '../../support/issuer.ts';
import { type Answers, lenientIssuer } from '../../support/lenient-issuer.ts';
import { createOpenidProvider } from '../../support/openid-provider.ts';
import { appAt, follow, historyOf, holdTimeouts, pasteToken, withKeysPage } from './keys-page.ts';

const begin = (page: Page) => page.getByRole('button', { name: /^Sign in with (127\.0\.0\.1|localhost):/ }).click();

describeInBrowser('with a certified issuer', (browser) => {
  test('who is not let in reads why; a person signs in, and neither code nor token is left in any address', async () => {
    await using issuer = await createOpenidProvider();
    await using app = await appAt(issuer);
    await issuer.begin('keys-page', `${app.url}/keys`);
    await withKeysPage(browser(), app, { issuer: issuer.url }, async ({ page, requests }) => {
      await begin(page);
      await page.getByRole('link', { name: /Cancel/ }).click();
      await page.getByText(/did not sign you in: .*aborted/).waitFor();
      await begin(page);
      await page.getByPlaceholder('Enter any login').fill('alice');
      await page.getByPlaceholder('and password').fill('any');
      await page.getByRole('button', { name: 'Sign-in' }).click();
      await page.getByRole('button', { name: 'Continue' }).click();
      await page.getByText('Signed in as alice').waitFor();
      expect(page.url()).toBe(`${app.url}/keys`);
      expect((await historyOf(page)).join(' ')).not.toMatch(/code=|state=|token/);
      const [opened, , left, ...later] = requests; // it has left twice
      expect(opened).toBe(`GET ${app.url}/keys`);
      const asked = new URL(left?.slice('GET '.length) ?? '');
      expect(asked.origin + asked.pathname).toBe(`${issuer.url}/auth`);
      expect(Object.fromEntries(asked.searchParams)).toEqual({
        response_type: 'code',
        client_id: 'keys-page',
        redirect_uri: `${app.url}/keys`,
        scope: 'openid',
        resource: app.url,
        state: expect.stringMatching(/^[\w-]{43}$/),
        code_challenge: expect.stringMatching(/^[\w-]{43}$/),
        code_challenge_method: 'S256',
      });
      expect(later).toEqual([`POST ${issuer.url}/token`, `POST ${app.url}/tools/list_api_keys`]);
    });
  });
});

describeInBrowser('with an issuer that is wrong', (browser) => {
  const REDEEMED = ['POST /token'];
  interface Wrong {
    readonly what: string;
    readonly answers: Answers;
    readonly said: RegExp;
    /** What the page has sent; nothing unless given. */
    readonly sent?: readonly string[];
  }
  const WRONG: readonly Wrong[] = rows(
    [
      {
        what: 'a state of another sign-in',
        answers: { back: (back) => back.set('state', 'another') },
        said: /does not belong to/,
      },
      {
        what: 'no name, though it sends one',
        answers: { back: (back) => back.delete('iss') },
        said: /did not come from/,
      },
      {
        what: 'an error',
        answers: {
          back(back) {
            back.delete('code');
            back.set('error', 'access_denied');
          },
        },
        said: /did not sign you in: access_denied\./,
      },
      {
        what: 'markup as an error',
        answers: { refusal: { error: '<img src=x onerror=alert(1)>' } },
        said: /gave no token: <img src=x onerror=alert\(1\)>\.$/,
        sent: REDEEMED,
      },
      {
        what: 'a token over two lines',
        answers: { refusal: { access_token: 'a\r\nX-Evil: 1' } },
        said: /^This is not a token\.$/,
        sent: REDEEMED,
      },
      {
        what: 'a token for another audience',
        answers: { claims: { aud: 'https://other.example' } },
        said: /it was not signed for this server/,
        sent: [...REDEEMED, 'POST /tools/list_api_keys'],
      },
      {
        what: 'a token that is not good yet',
        answers: { claims: { nbf: 9e9 } },
        said: /with another secret or key, for another address, or for later\./,
        sent: [...REDEEMED, 'POST /tools/list_api_keys'],
      },
      { what: 'no state', answers: { back: (back) => back.delete('state') }, said: /does not belong to/ },
      {
        what: "another issuer's name",
        answers: { back: (back) => back.set('iss', 'https://evil.example') },
        said: /did not come from/,
      },
      {
        what: 'a refusal of the code',
        answers: { refusal: { error: 'invalid_grant' } },
        said: /gave no token: invalid_grant\./,
        sent: REDEEMED,
      },
      {
        what: 'a token that is none',
        answers: { refusal: { access_token: { toString: 'x' } } },
        said: /gave no token/,
        sent: REDEEMED,
      },
    ],
    6,
  );
  const WITHOUT_CORS: Wrong = {
    what: 'a token endpoint without CORS',
    answers: { withoutCors: true },
    said: /does not let this page ask/,
    sent: REDEEMED,
  };

  test.each([
    ['what it sends', WRONG, false],
    ['what the browser refuses', [WITHOUT_CORS], true],
  ])('%s: nobody is signed in, the page says why and offers it again', async (_, all, quiet) => {
    await using issuer = await lenientIssuer();
    await using app = await appAt(issuer);
    await withKeysPage(browser(), app, { issuer: issuer.url, quiet }, async ({ page, requests }) => {
      for (const { what, said, sent = [], answers: wrong } of all) {
        issuer.answers = wrong;
        await page.goto(`${app.url}/keys`);
        const before = requests.length;
        await begin(page);
        await page.getByRole('alert').getByText(said).waitFor();
        await page.getByRole('button', { name: /^Sign in with/ }).waitFor();
        expect(page.url()).toBe(`${app.url}/keys`);
        expect(await page.getByRole('button', { name: 'Refresh' }).count()).toBe(0);
        const { origin } = new URL(issuer.url);
        const posts = requests.slice(before).filter((request) => request.startsWith('POST'));
        const paths = posts.map((request) => request.replace(app.url, '').replace(origin, ''));
        expect({ what, sent: paths }).toEqual({ what, sent: [...sent] });
      }
    });
  });

  test('one that gives no token is given up after 20 seconds, and may be tried again', async () => {
    await using issuer = await lenientIssuer();
    const give = issuer.overrides.get('/token');
    const asked = Promise.withResolvers<void>();
    issuer.overrides.set('/token', () => {
      asked.resolve();
      return new Promise<never>(() => {});
    });
    await using app = await appAt(issuer);
    await withKeysPage(browser(), app, { issuer: issuer.url, quiet: true }, async ({ page }) => {
      await using timeouts = await holdTimeouts(page);
      await begin(page);
      await asked.promise;
      await timeouts.pass(20_000);
      await page.getByRole('alert').getByText('did not answer').waitFor();
      if (give !== undefined) issuer.overrides.set('/token', give);
      await begin(page);
      await page.getByText('Signed in as alice').waitFor();
    });
  });

  test('an issuer that never names itself is believed without it', async () => {
    await using issuer = await lenientIssuer({ sendsIss: false, back: (back) => back.delete('iss') });
    await using app = await appAt(issuer);
    await withKeysPage(browser(), app, { issuer: issuer.url }, async ({ page }) => {
      await begin(page);
      await page.getByText('Signed in as alice').waitFor();
    });
  });

  test('one that is out of reach: the page is there and says so', async () => {
    const issuer = await createIssuer();
    await using app = await appAt(issuer);
    await issuer[Symbol.asyncDispose]();
    await withKeysPage(browser(), app, {}, async ({ page }) => {
      await page.getByText(`${new URL(issuer.url).host}, where you sign in, can’t be reached.`).waitFor();
      await page.getByLabel('Or paste a user token').waitFor();
      expect(await page.getByRole('button', { name: /^Sign in with/ }).count()).toBe(0);
    });
    const events = (await app.log()).map(({ event }) => event);
    expect(events).toContain('issuer out of reach');
  });

  test('one that is out of reach when a person comes back: what waits is there after a reload', async () => {
    await using issuer = await lenientIssuer();
    const METADATA = '/.well-known/oauth-authorization-server';
    const metadata = issuer.overrides.get(METADATA) ?? (() => expect.unreachable());
    issuer.answers = {
      back() {
        issuer.overrides.set(METADATA, () => new Response('', { status: 503 }));
        app?.clock.advance(61_000); // until then the server remembers where people sign in
      },
    };
    await using app = await appAt(issuer, { OAUTH_DEVICE: '1' });
    await withKeysPage(browser(), app, { at: '#ask=BCDF-GHJK', issuer: issuer.url }, async ({ page }) => {
      await begin(page);
      await page.getByText('can’t be reached. Reload the page to try again.').waitFor();
      issuer.answers = {};
      issuer.overrides.set(METADATA, metadata);
      app.clock.advance(6000);
      await page.reload();
      await begin(page);
      await page.getByText('BCDF-GHJK', { exact: true }).waitFor();
    });
  });
});

describeInBrowser('a browser that keeps nothing for the page', (browser) => {
  test('lets a person in with a token, and says why the issuer has to wait', async () => {
    await using issuer = await lenientIssuer();
    await using app = await appAt(issuer);
    const context = await browser().newContext();
    try {
      const page = await context.newPage();
      await page.addInitScript(() =>
        Object.defineProperty(window, 'sessionStorage', {
          get() {
            throw new DOMException('Access is denied for this document.', 'SecurityError');
          },
        }),
      );
      await page.goto(`${app.url}/keys`);
      await begin(page);
      await page.getByRole('alert').getByText('it needs HTTPS, and sessionStorage').waitFor();
      const exp = Math.floor(app.clock.nowMs() / 1000) + 60;
      await pasteToken(page, await issuer.token({ sub: 'bob', aud: app.url, exp }));
      await page.getByText('Signed in as bob').waitFor();
    } finally {
      await context.close();
    }
  });
});

describeInBrowser('a token that expires while somebody types', (browser) => {
  test('is said so, and what was typed is there after signing in again', async () => {
    await using issuer = await lenientIssuer();
    await using app = await appAt(issuer);
    await withKeysPage(browser(), app, { issuer: issuer.url }, async ({ page }) => {
      await begin(page);
      await page.getByRole('textbox', { name: 'Name' }).fill('typed <b>before</b>');
      await page.getByRole('textbox', { name: /scopes/i }).fill('read:orders');
      await page.getByLabel('Expires').selectOption('in 7 days');
      app.clock.advance(2 * 3_600_000);
      await page.getByRole('button', { name: 'Create key' }).click();
      const said = page.getByRole('alert').getByText('Sign in again: what you have typed is kept.');
      await said.waitFor();
      expect(await page.getByRole('textbox', { name: 'Name' }).inputValue()).toBe('typed <b>before</b>');
      await begin(page);
      await page.getByText('Signed in as alice').waitFor();
      expect(await page.getByRole('textbox', { name: 'Name' }).inputValue()).toBe('typed <b>before</b>');
      expect(await page.getByLabel('Expires').inputValue()).toBe('7');
      await page.getByRole('button', { name: 'Create key' }).click();
      await page.getByRole('heading', { name: 'typed <b>before</b>' }).waitFor();
      await page
        .getByRole('group', { name: /^New key of/ })
        .getByText('read:orders')
        .waitFor();
    });
  });

  inRest(test)('also after a sign-in that the issuer refused', async () => {
    await using issuer = await lenientIssuer();
    await using app = await appAt(issuer);
    await withKeysPage(browser(), app, { issuer: issuer.url }, async ({ page }) => {
      await begin(page);
      const name = page.getByRole('textbox', { name: 'Name' });
      await name.fill('typed before');
      app.clock.advance(2 * 3_600_000);
      await page.getByRole('textbox', { name: /scopes/i }).fill('read');
      await page.getByRole('button', { name: 'Create key' }).click();
      await page.getByRole('alert').getByText('what you have typed is kept').waitFor();
      issuer.answers = {
        back(back) {
          back.delete('code');
          back.set('error', 'access_denied');
        },
      };
      await begin(page);
      await page.getByText(/did not sign you in: access_denied/).waitFor();
      issuer.answers = {};
      await begin(page);
      await page.getByText('Signed in as alice').waitFor();
      expect(await name.inputValue()).toBe('typed before');
    });
  });

  test('beside keys, and as a code; it goes to nobody else, and into no form of another errand', async () => {
    await using issuer = await lenientIssuer();
    await using app = await appAt(issuer, { OAUTH_DEVICE: '1' });
    for (const user of ['alice', 'bob']) await app.keys('create', '--user', user, '--name', 'ci', '--scope', 'read');
    await withKeysPage(browser(), app, { issuer: issuer.url }, async ({ page }) => {
      const name = page.getByRole('textbox', { name: 'Name' });
      const expire = async (press: string) => {
        app.clock.advance(2 * 3_600_000);
        await page.getByRole('button', { name: press, exact: true }).click();
        await page.getByRole('alert').getByText('what you have typed is kept').waitFor();
      };
      await begin(page);
      await page.getByRole('button', { name: 'Create a key' }).click();
      await name.fill('typed before');
      await page.getByRole('checkbox', { name: 'read' }).check();
      await expire('Create key');
      await begin(page);
      await page.getByText('Signed in as alice').waitFor();
      expect(await name.inputValue()).toBe('typed before');

      await expire('Create key');
      issuer.answers = { claims: { sub: 'bob' } };
      await begin(page);
      await page.getByText('Signed in as bob').waitFor();
      await page.getByRole('button', { name: 'Create a key' }).click();
      expect(await name.inputValue()).toBe('');

      await name.fill('typed by bob');
      await page.getByRole('checkbox', { name: 'read' }).check();
      await expire('Create key');
      issuer.answers = { refusal: { error: 'invalid_grant' } };
      await begin(page);
      await page.getByText(/gave no token/).waitFor();
      await follow(page, { at: '#ask=' });
      issuer.answers = { claims: { sub: 'bob' } };
      await begin(page);
      await page.getByText('Signed in as bob').waitFor();
      const code = page.getByLabel('The code that the program shows');
      expect(await code.inputValue()).toBe('');
      await code.fill('BCDF-GHJK');
      await expire('Go on');
      await begin(page);
      await page.getByText('Signed in as bob').waitFor();
      expect(await code.inputValue()).toBe('BCDF-GHJK');
    });
  });
});
