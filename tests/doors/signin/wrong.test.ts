// Wrong requests to /register, /authorize and /token: none of them sends anybody to an address that isn't admitted, and
// none gets a key.

import { beforeEach, describe, expect, test } from 'bun:test';
import { CALLBACK, fieldsOf, handOver, makeForConnection, register, sentBack } from '../../support/hand-over.ts';
import { labelled } from '../../support/labels.ts';
import { refusal } from '../../support/refusal.ts';
import { bearer, COUNTED, createTestApp, sharedApp, type TestApp } from '../../support/test-app.ts';

const HOSTED = 'https://client.example/back';
const CONNECTOR = 'https://chat.example/oauth/connector-1';
const RESOURCE = 'https://other.example/mcp';
const ENV = {
  OAUTH_REDIRECTS: `loopback ${HOSTED} https://chat.example/oauth/* app.example://back`,
  OAUTH_RESOURCES: RESOURCE,
};

const app = await sharedApp({ env: ENV });
const { key } = await app.createKey('alice');
const client = await register(app);
const hosted = await register(app, [HOSTED, CONNECTOR, 'app.example://back']);
beforeEach(() => app.clock.advance(1000)); // each reason has a line a second

const post = (path: string, body: string | URLSearchParams, headers: Record<string, string> = {}) =>
  fetch(app.url + path, { method: 'POST', body, headers, redirect: 'manual' });

const registration = async (metadata: unknown) => {
  const response = await post('/register', JSON.stringify(metadata), { 'content-type': 'application/json' });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
};

/** Addresses that look like one that is admitted. */
const NOT_ADMITTED = [
  'http://127.0.0.1.:4599/',
  'http://127.0.0.2/',
  'http://127.1/',
  'http://0x7f.0.0.1/',
  'http://2130706433/',
  'http://localhost.evil.example/',
  'http://LOCALHOST/',
  'http://localhost:80:80/',
  'http://localhost:65536/',
  'http://localhost:/',
  'http://localhost@evil.example/',
  'http://localhost:1@evil.example/',
  'http://evil.example\\@localhost/',
  'http://localhost\\.evil.example/',
  'http://localhost/#fragment',
  'http://localhost/a/../b',
  'http://localhost/a/%2e%2e/b',
  'http://localhost/a/.%2E/b',
  'http://localhost/%2e/b',
  'http://localhost/a%5c..%5cb',
  'http://localhost/a%2f..%2fb',
  'http://localhost/%zz',
  'http://localhost/a b',
  'http://localhost/\r\nLocation: https://evil.example/',
  'http://[::2]/',
  'http://[::ffff:127.0.0.1]/',
  'https://localhost/',
  'ftp://localhost/',
  '//localhost/',
  'localhost',
  '/callback',
  '',
  'https://client.example/back/',
  'https://client.example/back?x=1',
  'https://client.example/back#x',
  'https://client.example:443/back',
  'https://user@client.example/back',
  'https://client.example.evil.example/back',
  'https://CLIENT.example/back',
  'HTTPS://client.example/back',
  'https://client.example/Back',
  'https://client.example/./back',
  'http://client.example/back',
  'https://chat.example/oauth/',
  'https://chat.example/oauth/*',
  'https://chat.example/oauth/a/b',
  'https://chat.example/oauth/..',
  'https://chat.example/oauth/a?b',
  'https://chat.example/oauth/a.b',
  'https://chat.example/oauth/%61',
  `https://chat.example/oauth/${'a'.repeat(201)}`,
  'app.example://back/',
  'app.example:back',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what somebody could send
  'javascript:alert("${key}")',
  'data:text/html,x',
  'about:blank',
];

describe('a redirect that is not admitted', () => {
  test.each(labelled(NOT_ADMITTED))('%s is neither registered nor sent to', async (_label, uri) => {
    expect(await registration({ redirect_uris: [uri] })).toEqual({
      status: 400,
      body: refusal('invalid_redirect_uri'),
    });
    const beside = await registration({ redirect_uris: [uri, CALLBACK] });
    expect(beside.body.redirect_uris).toEqual([CALLBACK]);
    for (const of of [client, hosted]) {
      const response = await fetch(of.page({ redirect_uri: uri }), { redirect: 'manual' });
      expect([response.status, response.headers.get('location')]).toEqual([400, null]);
    }
  });
});

describe('a registration', () => {
  test.each(
    labelled([
      [[CALLBACK, 'http://localhost:1/other']],
      [['http://127.0.0.1:1']],
      [['http://[::1]/a?b=c']],
      [[HOSTED]],
      [[CONNECTOR]],
      [['app.example://back']],
      [Array.from({ length: 10 }, (_, at) => `http://localhost:${at + 1}/`)],
      [[`http://localhost/${'a'.repeat(2000 - 'http://localhost/'.length)}`]],
    ]),
  )('of %s is taken', async (_label, [uris = []]) => {
    const { status, body } = await registration({ redirect_uris: uris });
    expect([status, body.redirect_uris]).toEqual([201, uris]);
  });

  test.each([
    ['an empty list', []],
    ['a text', CALLBACK],
    ['a number', [CALLBACK, 1]],
    ['eleven', Array(11).fill(CALLBACK)],
    ['too many characters', [CALLBACK, `http://localhost/${'a'.repeat(2000)}`]],
  ])('with %s is refused', async (_, redirectUris) => {
    expect(await registration({ redirect_uris: redirectUris })).toEqual({
      status: 400,
      body: refusal('invalid_redirect_uri'),
    });
  });

  test('that is no JSON, or of another type, is refused', async () => {
    const json = { 'content-type': 'application/json' };
    expect((await post('/register', '{', json)).status).toBe(400);
    expect((await post('/register', '{}', { 'content-type': 'text/plain' })).status).toBe(415);
  });

  test('says what is registered, whatever else was asked for, and nothing is stored', async () => {
    const asked = { redirect_uris: [CALLBACK], client_name: '<b>"name', grant_types: ['refresh_token'], logo_uri: 'x' };
    const { status, body } = await registration({ ...asked, token_endpoint_auth_method: 'client_secret_post' });
    const again = await registration(asked);
    expect(status).toBe(201);
    expect(body).toEqual({
      client_id: again.body.client_id,
      client_name: asked.client_name,
      redirect_uris: [CALLBACK],
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code'],
      response_types: ['code'],
    });
  });
});

/** Expects that the log says why the page was refused, and that a click is, too, with a line of its own. */
async function expectReason(page: URL, about: Readonly<Record<string, unknown>>): Promise<void> {
  const lines = async () => (await app.log()).filter(({ event }) => event === 'OAuth request refused');
  const line = (await lines()).at(-1);
  expect(line).toMatchObject({ route: 'authorize', ...about });
  expect(line?.error).toBe(about.error); // of a page nobody is sent one
  app.clock.advance(1000);
  const before = (await lines()).length;
  const clicked = await makeForConnection(app, page, await bearer(app, 'alice'));
  const { code, location } = (await clicked.json()) as { code: string; location?: string };
  expect([clicked.status, code, location]).toEqual([400, 'invalid_input', undefined]);
  expect((await lines()).length).toBe(before + 1);
}

describe('what is wrong with the client or its redirect is a page', () => {
  test.each<[string, { client_id: string | null } | { redirect_uri: string | null }]>([
    ['no client', { client_id: null }],
    ['an unknown client', { client_id: 'x' }],
    ['a client with another MAC', { client_id: `WyJodHRwczovL2V2aWwuZXhhbXBsZS8iXQ.${'0'.repeat(64)}` }],
    ['no redirect', { redirect_uri: null }],
    ['another path', { redirect_uri: 'http://127.0.0.1:9/other' }],
    ['another query', { redirect_uri: `${CALLBACK}?a=b` }],
    ['another name of this machine', { redirect_uri: 'http://localhost:9/callback' }],
    ['a redirect of another client', { redirect_uri: HOSTED }],
  ])('%s', async (_, changed) => {
    const page = client.page(changed);
    const response = await fetch(page, { redirect: 'manual' });
    expect([response.status, response.headers.get('location')]).toEqual([400, null]);
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
    const about =
      'client_id' in changed
        ? { reason: 'the client_id was not given by this server, or by another database' }
        : {
            reason: 'the client has not registered the redirect_uri',
            client: 'by hand',
            redirectUri: changed.redirect_uri,
          };
    await expectReason(page, about);
  });

  test('each parameter twice', async () => {
    const url = client.page({ scope: 'read', resource: app.url });
    for (const [name, value] of [...url.searchParams]) {
      const response = await fetch(`${url}&${new URLSearchParams([[name, value]])}`, { redirect: 'manual' });
      expect([name, response.status, response.headers.get('location')]).toEqual([name, 400, null]);
    }
  });

  test.each(['%FC', '%ED%A0%80', '%C3'])('a state of %s, which is not UTF-8: no other comes back', async (state) => {
    for (const responseType of ['code', 'token']) {
      const url = client.page({ state: null, response_type: responseType });
      const response = await fetch(`${url}&state=${state}`, { redirect: 'manual' });
      expect([response.status, response.headers.get('location')]).toEqual([400, null]);
    }
  });

  test('a client whose redirect has left OAUTH_REDIRECTS since', async () => {
    const { folder } = app;
    await using narrower = await createTestApp({ env: { OAUTH_REDIRECTS: HOSTED }, folder, store: 'embedded' });
    await using wider = await createTestApp({ env: ENV, folder, store: 'embedded' });
    const url = (await register(wider)).page();
    const at = (other: TestApp) => fetch(`${other.url}/authorize${url.search}`, { redirect: 'manual' });
    expect((await at(wider)).status).toBe(200);
    const refused = await at(narrower);
    expect([refused.status, refused.headers.get('location')]).toEqual([400, null]);
    expect((await narrower.log()).at(-1)).toMatchObject({
      event: 'OAuth request refused',
      reason: 'OAUTH_REDIRECTS does not admit the redirect_uri',
      redirectUri: CALLBACK,
    });
  });
});

describe('what else is wrong goes back to the client', () => {
  const CHALLENGE = { error: 'invalid_request', reason: 'no code_challenge of 43 characters' };
  const METHOD = { error: 'invalid_request', reason: 'code_challenge_method is not S256' };
  const TARGET = { error: 'invalid_target', reason: 'OAUTH_RESOURCES does not list the resource' };
  test.each<[string, Record<string, string | null>, { readonly error: string; readonly reason: string }]>([
    ['no response type', { response_type: null }, { error: 'invalid_request', reason: 'no response_type' }],
    [
      'a token at once',
      { response_type: 'token' },
      { error: 'unsupported_response_type', reason: 'response_type is not code' },
    ],
    [
      'another response mode',
      { response_mode: 'fragment' },
      { error: 'invalid_request', reason: 'response_mode is not query' },
    ],
    ['no challenge', { code_challenge: null }, CHALLENGE],
    ['a short challenge', { code_challenge: 'a'.repeat(42) }, CHALLENGE],
    ['a long challenge', { code_challenge: 'a'.repeat(44) }, CHALLENGE],
    ['an odd challenge', { code_challenge: `${'a'.repeat(42)}+` }, CHALLENGE],
    ['no method', { code_challenge_method: null }, METHOD],
    ['a plain challenge', { code_challenge_method: 'plain' }, METHOD],
    ['another resource', { resource: 'https://evil.example/mcp' }, TARGET],
    ['a path of this server', { resource: 'http://127.0.0.1/tools' }, TARGET],
    ['a resource in other letters', { resource: RESOURCE.toUpperCase() }, TARGET],
  ])('%s', async (_, changed, { error, reason }) => {
    const page = client.page(changed);
    const response = await fetch(page, { redirect: 'manual' });
    expect(response.status).toBe(303);
    expect(response.headers.get('location')).toStartWith(`${CALLBACK}?`);
    expect(Object.fromEntries(await sentBack(response))).toEqual({ error, state: 'of the client', iss: app.url });
    await expectReason(page, { error, reason, ...('resource' in changed && { resource: changed.resource }) });
  });

  test('who made a click reads the error of this server, not one that the redirect URI has itself', async () => {
    const own = await register(app, [`${CALLBACK}?error=of+the+client`]);
    const clicked = await makeForConnection(app, own.page({ response_type: 'token' }), await bearer(app, 'alice'));
    expect([clicked.status, ((await clicked.json()) as { detail: string }).detail]).toEqual([
      400,
      'The request is refused: unsupported_response_type',
    ]);
  });

  test('a resource may be this server, its transports, or another one of OAUTH_RESOURCES, with a slash at the end or not', async () => {
    const good = [app.url, `${app.url}/mcp`, `${app.url}/sse`, RESOURCE];
    for (const resource of [...good, ...good.map((url) => `${url}/`)]) {
      expect((await fetch(client.page({ resource }))).status).toBe(200);
    }
  });

  test('what was asked for besides decides nothing', async () => {
    const page = await fetch(client.page({ scope: 'admin "><script>', state: null, prompt: 'none' }));
    expect(page.status).toBe(200);
    expect(await page.text()).not.toContain('<script');
  });
});

describe('the form', () => {
  const form = async (typed: Record<string, string>) => {
    const fields = fieldsOf(await (await fetch(client.page())).text());
    for (const [name, value] of Object.entries(typed)) fields.set(name, value);
    return fields;
  };

  test.each([
    ['no origin', {}],
    ['another origin', { origin: 'http://localhost' }],
    ['another port', { origin: 'http://127.0.0.1:1' }],
    ['a page without an origin', { origin: 'null' }],
  ])('%s: refused', async (_, headers) => {
    const response = await post('/authorize', await form({ key }), headers as Record<string, string>);
    expect([response.status, response.headers.get('location')]).toEqual([403, null]);
    const origin = (headers as { origin?: string }).origin ?? '';
    expect((await app.log()).at(-1)).toMatchObject({ event: 'request refused', code: 'origin_denied', origin });
  });

  test('a wrong key: the page again, with the guard’s sentence, and without the key', async () => {
    const wrong = `sk_test_${'0'.repeat(64)}`;
    const response = await handOver(client.page(), { key: wrong });
    const html = await response.text();
    expect([response.status, response.headers.get('location')]).toEqual([401, null]);
    expect(response.headers.get('www-authenticate')).toStartWith('Bearer error="invalid_token"');
    expect(html).toContain('Invalid or expired API key');
    expect(html).toContain('<form');
    expect(html).not.toContain(wrong);
    expect((await handOver(client.page(), { key: '' })).status).toBe(401);
    const token = await handOver(client.page(), { key: await app.token('alice') });
    expect(token.status).toBe(401);
    expect(await token.text()).toContain('Invalid or expired API key: this is a token, not a key.');
  });

  test('two keys are a page without a form', async () => {
    const fields = await form({ key });
    fields.append('key', key);
    const response = await post('/authorize', fields, { origin: app.url });
    expect([response.status, response.headers.get('location')]).toEqual([400, null]);
  });

  test('cancelled: sent back without a code', async () => {
    const back = await sentBack(await handOver(client.page(), { key, cancel: '1' }));
    expect(Object.fromEntries(back)).toEqual({ error: 'access_denied', state: 'of the client', iss: app.url });
  });

  test('what the client says is text: state comes back as it was, and nothing of it is markup', async () => {
    const state = '"><script>alert(1)</script>\r\nSet-Cookie: a=b&code=x%00\u{1f600}';
    const page = await fetch(client.page({ state }));
    const html = await page.text();
    expect(html).not.toContain('<script');
    expect(fieldsOf(html).get('state')).toBe(state);
    const back = await sentBack(await handOver(client.page({ state }), { key }));
    expect(back.get('state')).toBe(state);
    expect(back.getAll('code')).toHaveLength(1);
  });

  test('a state as long as a URL may be comes back; a longer one, which nobody can have opened the page with, is refused', async () => {
    const longest = '"'.repeat(16 * 1024);
    const fields = await form({ state: longest, cancel: '1' });
    expect((await sentBack(await post('/authorize', fields, { origin: app.url }))).get('state')).toBe(longest);
    fields.set('state', `${longest}"`);
    const response = await post('/authorize', fields, { origin: app.url });
    expect([response.status, response.headers.get('location')]).toEqual([400, null]);
    expect((await response.text()).length).toBeLessThan(15_000);
  });

  test.each([
    ['scope', '"'.repeat(300_000)],
    ['redirect_uri', `${CALLBACK}?${'&'.repeat(300_000)}`],
  ])('a %s that is longer than a URL may be gets a short page, which may stay unread', async (name, text) => {
    const fields = await form({ client_id: 'https://nobody.example/client.json', [name]: text, key: '' });
    const response = await post('/authorize', fields, { origin: app.url });
    expect([response.status, response.headers.get('location')]).toEqual([400, null]);
    expect((await response.text()).length).toBeLessThan(15_000);
  });

  test('guesses use up the budget of unknown keys of their address, and a good key is taken nevertheless', async () => {
    await using own = await createTestApp({ env: { ...ENV, ...COUNTED } });
    const good = await own.createKey('alice');
    const page = (await register(own)).page();
    const before = await own.storeReads();
    const guess = (at: number) => handOver(page, { key: `sk_test_${at.toString(16).padStart(64, '0')}` });
    for (let at = 0; at < 20; at += 1) expect((await guess(at)).status).toBe(401);
    expect((await own.storeReads()) - before).toBe(20);
    expect((await handOver(page, { key: good.key })).status).toBe(303);
  });
});
