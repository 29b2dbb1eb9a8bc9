// Clients whose id is the URL of a document (Client ID Metadata Documents): which documents are read, what they must say,
// how long they are kept, and whole ways of official clients.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { parseConfig } from '../../../src/start/package/index.ts';
import { postJson, userOn } from '../../support/client.ts';
import { serveDocuments, trustAll } from '../../support/client-documents.ts';
import { rows } from '../../support/everything.ts';
import { CALLBACK, handOver, makeForConnection, register, sentBack } from '../../support/hand-over.ts';
import { createSignIn } from '../../support/oauth-client.ts';
import { CLIENTS, signedIn } from '../../support/oauth-clients.ts';
import { refusal } from '../../support/refusal.ts';
import { startServer } from '../../support/server-process.ts';
import { shared } from '../../support/shared.ts';
import {
  bearer,
  createTestApp,
  eventsIn,
  readResponse,
  sharedApp,
  TEST_SECRET,
  type TestApp,
} from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

const HOSTED = 'https://client.example/back';
const VERIFIER = 'v'.repeat(43);
const JSON_TYPE = { 'content-type': 'application/json' };

const vendor = await shared(serveDocuments());
let distrust: () => void;
beforeAll(() => {
  distrust = trustAll();
});
afterAll(() => distrust());

/** Publishes a document; `changed` members replace what it says. Returns the client's id. */
function publish(changed: object = {}, { path = `/c${vendor.documents.size}.json`, headers = {} } = {}): string {
  const id = vendor.origin + path;
  const document = { client_id: id, client_name: 'Bank <b>', redirect_uris: [HOSTED, CALLBACK], ...changed };
  vendor.documents.set(path, () => Response.json(document, { headers }));
  return id;
}

const pathOf = (id: string) => new URL(id).pathname;

const envOf = (...ids: readonly string[]) => ({
  OAUTH_CLIENTS: ids.join(' '),
  RATE_LIMIT_REQUESTS: '0',
  TRUST_PROXY: '1',
});

const pageOf = ({ url }: { url: string }, clientId: string, redirectUri: string = HOSTED) =>
  new URL(
    `${url}/authorize?${new URLSearchParams({
      response_type: 'code',
      client_id: clientId,
      redirect_uri: redirectUri,
      code_challenge: createHash('sha256').update(VERIFIER).digest('base64url'),
      code_challenge_method: 'S256',
    })}`,
  );

const open = async (app: TestApp, clientId: string, redirectUri?: string, from = '192.0.2.1') => {
  const response = await fetch(pageOf(app, clientId, redirectUri), {
    redirect: 'manual',
    headers: { 'x-forwarded-for': from },
  });
  return { status: response.status, location: response.headers.get('location'), text: await response.text() };
};

const redeem = (app: TestApp, clientId: string, code: string) =>
  fetch(`${app.url}/token`, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'authorization_code', code, code_verifier: VERIFIER, client_id: clientId }),
  });

test('a client is known by its document, from the page to its key', async () => {
  const id = publish();
  await using app = await createTestApp({ env: envOf(id) });
  const metadata = await (await fetch(`${app.url}/.well-known/oauth-authorization-server`)).json();
  expect(metadata).toMatchObject({
    client_id_metadata_document_supported: true,
    token_endpoint_auth_methods_supported: ['none'],
    authorization_endpoint: `${app.url}/authorize`,
  });
  expect(metadata).not.toHaveProperty('registration_endpoint');
  expect((await fetch(`${app.url}/register`, { method: 'POST' })).status).toBe(404);
  const { text } = await open(app, id);
  expect(text).toContain('<span class="host">client.example</span>');
  expect(text).toContain(`Identified by <bdi>${new URL(id).host}</bdi>.`);
  expect(text).not.toContain('Bank');
  const { key } = await app.createKey('alice');
  const back = await sentBack(await handOver(pageOf(app, id), { key }));
  const handed = await redeem(app, id, back.get('code') ?? '');
  expect(await handed.json()).toMatchObject({ access_token: key });
  expect((await eventsIn(app)).at(-1)).toMatchObject({ kind: 'connected', actor: 'client.example', client: id });
  const line = (await app.log()).find(({ event }) => event === 'API key handed to a client');
  expect(line).toMatchObject({ host: 'client.example', client: id, resource: app.url });
  expect(vendor.hits(pathOf(id))).toBe(1);
  expect(await (await redeem(app, publish(), back.get('code') ?? '')).json()).toEqual(refusal('invalid_client'));
});

test('beside registration, each by its own', async () => {
  const id = publish();
  await using app = await createTestApp({ env: { ...envOf(id), OAUTH_REDIRECTS: 'loopback' } });
  const client = await register(app);
  expect((await fetch(client.page())).status).toBe(200);
  expect((await open(app, client.clientId, HOSTED)).status).toBe(400);
  expect((await open(app, id)).status).toBe(200);
});

test('this machine and apps: any port, and nobody can prove who it is', async () => {
  const id = publish({ redirect_uris: ['http://localhost/cb', 'app.example:/back'] });
  await using app = await createTestApp({ env: envOf(id) });
  const here = await open(app, id, 'http://localhost:12345/cb');
  const { host } = new URL(id);
  expect(here.text).toContain('<span class="host">a program on this computer</span>');
  expect(here.text).toContain(`It says that it is <bdi>${host}</bdi>, which nobody can prove.`);
  expect((await open(app, id, 'app.example:/back')).text).toContain(
    '<span class="host">an app on this computer</span>',
  );
  expect((await open(app, id, 'http://127.0.0.1:12345/cb')).status).toBe(400);
  expect((await open(app, id, 'http://localhost:12345/other')).status).toBe(400);
});

describe('a document that is wrong is a page, and never a redirect', async () => {
  const big = (bytes: number) => (id: string) => {
    const text = JSON.stringify({ client_id: id, redirect_uris: [HOSTED], x: '' });
    return text.replace('"x":""', `"x":"${'x'.repeat(bytes - text.length)}"`);
  };
  const json = (members: object) => (id: string) =>
    JSON.stringify({ client_id: id, redirect_uris: [HOSTED], ...members });
  const encoded = (body: Uint8Array<ArrayBuffer>, encoding: string) =>
    new Response(body, { headers: { ...JSON_TYPE, 'content-encoding': encoding } });
  const DOCUMENTS: [string, number, (id: string) => string | Response][] = [
    ['10 KiB', 200, big(10 * 1024)],
    ['10 KiB + 1', 400, big(10 * 1024 + 1)],
    ['another client_id by one character', 400, (id) => json({ client_id: `${id}/` })(id)],
    ['a redirect that is not in it', 400, json({ redirect_uris: ['https://other.example/'] })],
    [
      '21 redirects',
      400,
      json({ redirect_uris: [HOSTED, ...Array.from({ length: 20 }, (_, i) => `https://a.example/${i}`)] }),
    ],
    [
      '2,001 characters of redirects',
      400,
      json({ redirect_uris: [HOSTED, `https://a.example/${'x'.repeat(2001 - HOSTED.length - 18)}`] }),
    ],
    [
      'redirects that nobody could name',
      400,
      json({ redirect_uris: ['https://client.example/*', 'javascript:alert(1)', 'http://client.example/'] }),
    ],
    ['no redirects', 400, json({ redirect_uris: [] })],
    ['a redirect in no list', 400, json({ redirect_uris: HOSTED })],
    ['a redirect that is no text', 400, json({ redirect_uris: [HOSTED, 1] })],
    ['a secret', 400, json({ client_secret: 'x' })],
    ['private_key_jwt alone', 400, json({ token_endpoint_auth_method: 'private_key_jwt' })],
    [
      'private_key_jwt, and none',
      200,
      json({
        token_endpoint_auth_method: 'private_key_jwt',
        token_endpoint_auth_methods_supported: ['private_key_jwt', 'none'],
      }),
    ],
    [
      'private_key_jwt, and the like',
      400,
      json({
        token_endpoint_auth_method: 'private_key_jwt',
        token_endpoint_auth_methods_supported: ['private_key_jwt', 'client_secret_basic'],
      }),
    ],
    ['none', 200, json({ token_endpoint_auth_method: 'none' })],
    ['a member twice', 400, (id) => json({})(id).replace('{', '{"redirect_uris":["https://evil.example/"],')],
    ['a member twice, escaped', 400, (id) => json({})(id).replace('{', '{"cl\\u0069ent_id":"x",')],
    ['a member of a member twice', 200, json({ jwks: { keys: [{ a: 1 }, { a: 1 }] }, note: '{"x":1,"x":2}' })],
    ['__proto__', 400, (id) => `{"__proto__":${json({})(id)}}`],
    ['depth 10,000', 400, () => '['.repeat(5000) + ']'.repeat(5000)],
    ['a list', 400, (id) => `[${json({})(id)}]`],
    ['HTML', 400, () => '<!doctype html>'],
    ['a BOM', 400, (id) => `\ufeff${json({})(id)}`],
    [
      'bytes that are no UTF-8',
      400,
      (id) => new Response(Buffer.from(json({ ü: 1 })(id), 'latin1'), { headers: JSON_TYPE }),
    ],
    ['another media type', 400, (id) => new Response(json({})(id), { headers: { 'content-type': 'text/html' } })],
    [
      'application/x+json',
      200,
      (id) => new Response(json({})(id), { headers: { 'content-type': 'application/client+json; charset=utf-8' } }),
    ],
    ['gzip that nobody asked for', 200, (id) => encoded(gzipSync(json({})(id)), 'gzip')],
    ['the same under its old name', 200, (id) => encoded(gzipSync(json({})(id)), ' X-GZip')],
    ['deflate', 200, (id) => encoded(deflateSync(json({})(id)), 'deflate')],
    ['br', 200, (id) => encoded(brotliCompressSync(json({})(id)), 'br')],
    ['10 KiB in gzip', 200, (id) => encoded(gzipSync(big(10 * 1024)(id)), 'gzip')],
    ['10 KiB + 1 in gzip', 400, (id) => encoded(gzipSync(big(10 * 1024 + 1)(id)), 'gzip')],
    ['10 KiB + 1 in deflate', 400, (id) => encoded(deflateSync(big(10 * 1024 + 1)(id)), 'deflate')],
    ['10 KiB + 1 in br', 400, (id) => encoded(brotliCompressSync(big(10 * 1024 + 1)(id)), 'br')],
    ['gzip cut short', 400, (id) => encoded(gzipSync(json({})(id)).subarray(0, 30), 'gzip')],
    ['no gzip', 400, (id) => encoded(Buffer.from(json({})(id)), 'gzip')],
    ['two encodings', 400, (id) => encoded(gzipSync(gzipSync(json({})(id))), 'gzip, gzip')],
    ['an unknown encoding', 400, (id) => encoded(Buffer.from(json({})(id)), 'aes128gcm')],
    ['identity', 200, (id) => encoded(Buffer.from(json({})(id)), 'identity')],
    ['302', 503, (id) => Response.redirect(`${id}/other`, 302)],
    ['404', 503, () => new Response('', { status: 404 })],
    ['500', 503, () => new Response('', { status: 500 })],
    ['201', 503, (id) => Response.json(JSON.parse(json({})(id)), { status: 201 })],
  ];
  const idOf = (at: number) => `${vendor.origin}/wrong/${at}.json`;
  for (const [at, [, , body]] of DOCUMENTS.entries()) {
    vendor.documents.set(pathOf(idOf(at)), () => {
      const made = body(idOf(at));
      return typeof made === 'string' ? new Response(made, { headers: JSON_TYPE }) : made;
    });
  }
  const app = await sharedApp({ env: envOf(...DOCUMENTS.map((_, at) => idOf(at))) });

  test.each(DOCUMENTS.map(([what, status], at) => [what, status, at] as const))('%s: %d', async (_, status, at) => {
    const id = idOf(at);
    const opened = await open(app, id);
    expect([opened.status, opened.location]).toEqual([status, null]);
    if (status !== 200) {
      expect(opened.text).toContain('No key is handed over');
      expect(opened.text).not.toContain('evil');
    }
    const decided = { name: 'n', scopes: [] };
    const byClick = await makeForConnection(app, pageOf(app, id), await bearer(app, 'alice'), decided);
    const { code, issues } = (await byClick.json()) as { code?: string; issues?: readonly object[] };
    expect([byClick.status, code, issues?.length]).toEqual([
      status,
      ...({ 200: [undefined, undefined], 400: ['invalid_input', 1], 503: ['client_unavailable', undefined] }[status] ??
        []),
    ]);
  });

  test('a slow drip, or nobody there, is 503 within 6 s', async () => {
    const id = publish();
    vendor.documents.set(
      pathOf(id),
      () => new Response(new ReadableStream({ pull: () => Bun.sleep(20_000) }), { headers: JSON_TYPE }),
    );
    await using app = await createTestApp({ env: envOf(id, 'https://localhost:1/c.json') });
    const opened = open(app, id);
    while (vendor.hits(pathOf(id)) === 0) await Bun.sleep(5);
    await Bun.sleep(50); // the head of the response has come
    app.clock.advance(5000);
    expect((await opened).status).toBe(503);
    expect((await open(app, 'https://localhost:1/c.json')).status).toBe(503);
  });
});

test('an id that is not admitted is a page, and nothing is fetched', async () => {
  const listed = publish();
  await using app = await createTestApp({ env: envOf(listed, `${vendor.origin}/many/*`) });
  const notAdmitted = {
    'not listed': `${vendor.origin}/other.json`,
    'other capitals': listed.replace('/c', '/C'),
    'a dot segment': listed.replace('/c', '/x/../c'),
    'user-info': listed.replace('https://', 'https://x@'),
    'another port': listed.replace(/:\d+/, ''),
    'a query': `${listed}?x`,
    'a fragment': `${listed}#x`,
    'plain HTTP': listed.replace('https', 'http'),
    'too deep under a wildcard': `${vendor.origin}/many/a/b/c`,
    'a dot segment under a wildcard': `${vendor.origin}/many/..`,
    'nothing under a wildcard': `${vendor.origin}/many/`,
    'an encoded segment under a wildcard': `${vendor.origin}/many/%61`,
  };
  for (const [what, id] of Object.entries(notAdmitted)) {
    const { status } = await open(app, id);
    expect({ what, status, hits: vendor.hits(new URL(id).pathname) }).toEqual({ what, status: 400, hits: 0 });
  }
});

test('a request with a parameter twice, or too long, is a page, and nothing is fetched', async () => {
  const id = publish();
  await using app = await createTestApp({ env: envOf(id) });
  const page = pageOf(app, id);
  const twice = await fetch(`${page}&state=a&state=b`);
  expect([twice.status, await twice.text()]).toEqual([400, expect.stringContaining('has a parameter twice')]);
  const body = new URLSearchParams([...page.searchParams, ['state', 'x'.repeat(16 * 1024 + 1)]]);
  const long = await fetch(`${app.url}/authorize`, { method: 'POST', headers: { origin: app.url }, body });
  expect([long.status, await long.text()]).toEqual([400, expect.stringContaining('The request is too long')]);
  expect(vendor.hits(pathOf(id))).toBe(0);
  expect((await open(app, id)).status).toBe(200);
});

describe('a client that is not listed', () => {
  const byClick = async (app: TestApp, id: string, redirectUri: string) => {
    const page = pageOf(app, id, redirectUri);
    const decided = { name: 'n', scopes: ['read'] };
    return readResponse(await makeForConnection(app, page, await bearer(app, 'alice'), decided));
  };
  const HERE = 'http://127.0.0.1:33418/';

  test.each([
    ['beside listed ones', 'known'],
    ['where none is listed', undefined],
  ])('gets a key where any client may register, and nobody vouches for it: %s', async (_, listed) => {
    const id = publish({}, { path: '/unlisted.json' });
    const before = vendor.hits(pathOf(id));
    const env = { OAUTH_REDIRECTS: `loopback ${HOSTED}`, OAUTH_CLIENTS: listed };
    await using app = await createTestApp({ env });
    const { host } = new URL(id);
    const says = `It says that it is <bdi>${host}</bdi>, which nobody can prove.`;
    for (const [redirect, place] of [
      [HERE, 'a program on this computer'],
      [HOSTED, 'client.example'],
    ] as const) {
      const { status, text } = await open(app, id, redirect);
      expect([status, text]).toEqual([200, expect.stringContaining(`<span class="host">${place}</span>`)]);
      expect(text).toContain(says);
      expect(text).not.toContain('Identified by');
    }
    const { key } = await app.createKey('alice');
    const pasted = (await sentBack(await handOver(pageOf(app, id, HERE), { key }))).get('code') ?? '';
    const clicked = new URL((await byClick(app, id, HERE)).body.location).searchParams.get('code') ?? '';
    expect(await (await redeem(app, id, pasted)).json()).toMatchObject({ access_token: key });
    expect((await redeem(app, id, clicked)).status).toBe(200);
    expect(vendor.hits(pathOf(id))).toBe(before);
  });

  test('is told who it says it is and what helps, and the log has the id to list', async () => {
    const env = { OAUTH_REDIRECTS: 'https://other.example/back', OAUTH_CLIENTS: 'known' };
    await using app = await createTestApp({ env });
    await using strict = await createTestApp({ env: { OAUTH_CLIENTS: 'known' } });
    const id = 'https://agent.example/cli/client-metadata.json';
    for (const at of [app, strict]) {
      const { status, text, location } = await open(at, id, HERE);
      expect([status, location]).toEqual([400, null]);
      const sentence =
        'agent.example. This server does not know it: whoever runs the server can list it in OAUTH_CLIENTS.';
      expect(text).toContain(sentence);
      const clicked = await byClick(at, id, HERE);
      expect(clicked).toMatchObject({ status: 400, body: { code: 'invalid_input' } });
      expect(clicked.body.detail).toContain(sentence);
      const line = (await at.log()).find(({ event }) => event === 'client not admitted');
      expect(line).toMatchObject({ level: 'warn', client: id });
    }
    expect((await redeem(strict, id, 'x'.repeat(43))).status).toBe(401);
    for (const wrong of ['https://', 'https://a b', `https://agent.example/${'x'.repeat(2000)}`])
      expect((await open(app, wrong, HERE)).text).toContain('Have it connect again.');
  });
});

test('a redirect that a cached document does not name reads it again, at most every 10 s', async () => {
  const [exact, within] = [publish(), publish({}, { path: '/many/moving.json' })];
  await using app = await createTestApp({ env: envOf(exact, `${vendor.origin}/many/*`) });
  for (const id of [exact, within]) {
    const [path, moved] = [pathOf(id), 'https://client.example/moved'];
    expect((await open(app, id)).status).toBe(200);
    publish({ redirect_uris: [moved] }, { path });
    expect((await open(app, id, moved)).status).toBe(400); // it was just read
    app.clock.advance(9999);
    expect([(await open(app, id, moved)).status, vendor.hits(path)]).toEqual([400, 1]);
    app.clock.advance(1);
    const opened = await Promise.all(Array.from({ length: 5 }, () => open(app, id, moved)));
    expect([opened.map(({ status }) => status), vendor.hits(path)]).toEqual([[200, 200, 200, 200, 200], 2]);
    expect([(await open(app, id)).status, vendor.hits(path)]).toEqual([400, 2]);
    // Its server away, the one that is there serves on.
    vendor.documents.set(path, () => new Response('', { status: 500 }));
    app.clock.advance(10_000);
    expect([(await open(app, id)).status, (await open(app, id, moved)).status, vendor.hits(path)]).toEqual([
      400, 200, 3,
    ]);
    app.clock.advance(9999);
    expect([(await open(app, id)).status, vendor.hits(path)]).toEqual([400, 3]);
  }
});

test('made-up redirects of clients under a wildcard share the budget of made-up ids, and nobody gets 429 for them', async () => {
  const id = publish({}, { path: '/many/budget.json' });
  await using app = await createTestApp({ env: envOf(`${vendor.origin}/many/*`) });
  await open(app, id);
  app.clock.advance(10_000);
  expect((await open(app, id, 'https://client.example/made-up')).status).toBe(400);
  expect(vendor.hits(pathOf(id))).toBe(1 + 1);
  app.clock.advance(10_000);
  for (let made = 0; made < 10; made += 1) await open(app, `${vendor.origin}/many/made-up-${made}.json`);
  expect((await open(app, id, 'https://client.example/made-up')).status).toBe(400);
  expect((await open(app, id)).status).toBe(200);
  expect(vendor.hits(pathOf(id))).toBe(1 + 1);
});

describe('how long a document counts', () => {
  test('a request without a redirect reads none again', async () => {
    const id = publish();
    await using app = await createTestApp({ env: envOf(id) });
    await open(app, id);
    app.clock.advance(30_000);
    const page = pageOf(app, id);
    page.searchParams.delete('redirect_uri');
    expect((await fetch(page, { redirect: 'manual' })).status).toBe(400);
    expect(vendor.hits(pathOf(id))).toBe(1);
  });

  test('as it says, from 5 minutes to 24 hours, an hour unless it says; many at once are one fetch', async () => {
    const kept: [string, number][] = [
      ['', 3600],
      ['public, max-age=600', 600],
      ['max-age=1', 300],
      ['max-age=999999', 86_400],
      ['no-store, max-age=600', 300],
    ];
    const ids = kept.map(([said]) => publish({}, { headers: said === '' ? {} : { 'cache-control': said } }));
    await using app = await createTestApp({ env: envOf(...ids) });
    for (const [at, id] of ids.entries()) {
      const [said = '', seconds = 0] = kept[at] ?? [];
      const opened = await Promise.all(Array.from({ length: 40 }, () => open(app, id)));
      expect(new Set(opened.map(({ status }) => status))).toEqual(new Set([200]));
      app.clock.advance(seconds * 1000 - 1);
      await open(app, id);
      expect({ said, hits: vendor.hits(pathOf(id)) }).toEqual({ said, hits: 1 });
      app.clock.advance(1);
      await open(app, id);
      expect({ said, hits: vendor.hits(pathOf(id)) }).toEqual({ said, hits: 2 });
    }
  });

  test('its server away, the old one serves for 7 days more, with a try every 10 s that no page waits for', async () => {
    const id = publish();
    const [path, good] = [pathOf(id), vendor.documents.get(pathOf(id))];
    await using app = await createTestApp({ env: envOf(id) });
    await open(app, id);
    vendor.documents.delete(path);
    app.clock.advance(3600_000);
    expect((await open(app, id)).status).toBe(200);
    expect(vendor.hits(path)).toBe(2);
    app.clock.advance(9999);
    expect((await open(app, id)).status).toBe(200);
    expect(vendor.hits(path)).toBe(2);
    const never = Promise.withResolvers<Response>();
    vendor.documents.set(path, () => never.promise);
    app.clock.advance(1);
    expect((await open(app, id)).status).toBe(200);
    while (vendor.hits(path) < 3) await Bun.sleep(5);
    never.resolve(new Response('', { status: 503 }));
    await Bun.sleep(20);
    app.clock.advance(7 * 86_400_000 - 10_001);
    expect((await open(app, id)).status).toBe(200);
    await using other = await createTestApp({ env: envOf(id) }); // another process has none
    expect((await open(other, id)).status).toBe(503);
    app.clock.advance(1);
    expect((await open(app, id)).status).toBe(503);
    const lines = (await app.log()).filter(({ event }) => event === 'client document out of reach');
    expect(lines).toMatchObject([{ level: 'warn', client: id }]);
    if (good) vendor.documents.set(path, good);
    expect((await open(app, id)).status).toBe(503); // remembered for 10 s
    app.clock.advance(10_000);
    expect((await open(app, id)).status).toBe(200);
  });

  test('a wrong one ends the old one', async () => {
    const id = publish();
    await using app = await createTestApp({ env: envOf(id) });
    await open(app, id);
    publish({ redirect_uris: [] }, { path: pathOf(id) });
    app.clock.advance(3600_000);
    expect((await open(app, id)).status).toBe(400);
    vendor.documents.delete(pathOf(id));
    app.clock.advance(10_000);
    expect((await open(app, id)).status).toBe(503);
  });
});

test('who makes up ids under a wildcard has ten a minute, all have sixty, and nobody else waits', async () => {
  const listed = publish();
  const good = publish({}, { path: '/many/good.json' });
  await using app = await createTestApp({ env: envOf(listed, `${vendor.origin}/many/*`) });
  expect((await open(app, good)).status).toBe(200);
  const madeUp = (from: string, count: number) =>
    Promise.all(Array.from({ length: count }, (_, i) => open(app, `${vendor.origin}/many/${from}/${i}`, HOSTED, from)));
  const one = await madeUp('198.51.100.1', 11);
  expect(one.filter(({ status }) => status === 503)).toHaveLength(10);
  expect(one.filter(({ status }) => status === 429)).toHaveLength(1);
  app.clock.advance(59_999);
  expect((await open(app, `${vendor.origin}/many/y`, HOSTED, '198.51.100.1')).status).toBe(429);
  app.clock.advance(1);
  await madeUp('198.51.100.1', 10);
  for (let address = 2; address <= 7; address += 1) await madeUp(`198.51.100.${address}`, 9);
  expect((await open(app, `${vendor.origin}/many/x`, HOSTED, '198.51.100.9')).status).toBe(429);
  expect((await open(app, good, HOSTED, '198.51.100.1')).status).toBe(200);
  expect((await open(app, listed, HOSTED, '198.51.100.1')).status).toBe(200);
  expect(vendor.hits(pathOf(good))).toBe(1);
  app.clock.advance(3_600_000);
  for (let address = 1; address <= 6; address += 1) await madeUp(`198.51.100.${address}`, 10);
  expect((await open(app, `${vendor.origin}/many/z`, HOSTED, '198.51.100.9')).status).toBe(429);
  expect((await open(app, good, HOSTED, '198.51.100.9')).status).toBe(200); // fetched again, as it was good before
  expect(vendor.hits(pathOf(good))).toBe(2);
});

test('made-up ids whose documents hang leave a place for a listed one of the same host', async () => {
  const listed = publish();
  const never = Promise.withResolvers<Response>();
  const madeUp = [1, 2].map((at) => `/hangs/${at}`);
  for (const path of madeUp) vendor.documents.set(path, () => never.promise);
  await using app = await createTestApp({ env: envOf(listed, `${vendor.origin}/hangs/*`) });
  const hanging = madeUp.map((path) => open(app, vendor.origin + path));
  await waitFor(() => madeUp.some((path) => vendor.hits(path) > 0));
  expect((await open(app, listed)).status).toBe(200);
  never.resolve(new Response('', { status: 404 }));
  await Promise.all(hanging);
}, 180_000);

describe('the variable', () => {
  test.each([
    'http://claude.ai/c.json',
    'https://claude.ai',
    'https://CLAUDE.ai/c.json',
    'https://claude.ai:8443/c.json',
    'https://claude.ai/c.json?',
    'https://claude.ai/c.json?x',
    'https://claude.ai/c.json#x',
    'https://x@claude.ai/c.json',
    'https://claude/c.json',
    'https://claude.ai./c.json',
    'https://192.0.2.1/c.json',
    'https://claude.ai/a/../c.json',
    'https://claude.ai/%2e%2e/c.json',
    'https://*.ai/c.json',
    'https://claude.ai/*/c.json',
    'https://localhost/c.json',
    'known,loopback',
    'all',
  ])('%s is wrong', (value) => {
    const wrong = { ok: false, error: [expect.stringMatching(/^OAUTH_CLIENTS: /)] };
    expect(parseConfig({ OAUTH_CLIENTS: value })).toMatchObject(wrong);
  });

  test('a document of this machine is wrong in production', () => {
    const env = { OAUTH_CLIENTS: 'https://localhost:9443/c.json', PUBLIC_URL: 'https://keys.example' };
    expect(parseConfig(env)).toMatchObject({ ok: true });
    const production = { ...env, NODE_ENV: 'production', JWT_SECRET: TEST_SECRET };
    expect(parseConfig(production)).toMatchObject({ ok: false, error: [expect.stringMatching(/^OAUTH_CLIENTS: /)] });
  });
});

describe('a registered client’s name', () => {
  test('is in its id, cut at 60 characters, and shown as its own words', async () => {
    await using app = await createTestApp({ env: { OAUTH_REDIRECTS: `loopback ${HOSTED}` } });
    const idOf = async (name: unknown, uris = [CALLBACK]) => {
      const response = await postJson(`${app.url}/register`, { redirect_uris: uris, client_name: name });
      return ((await response.json()) as { client_id: string }).client_id;
    };
    const named = await idOf('Inspector <b>');
    expect((await open(app, named, CALLBACK)).text).toContain('It calls itself "<bdi>Inspector &lt;b&gt;</bdi>".');
    expect(await idOf('Inspector <b>')).toBe(named);
    expect(await idOf(`${'🔑'.repeat(60)}x`)).toBe(await idOf(`${'🔑'.repeat(60)}y`));
    expect(await idOf('🔑'.repeat(200))).toBe(await idOf('🔑'.repeat(60)));
    expect(await idOf('🔑'.repeat(201))).toBe(await idOf(undefined));
    expect((await open(app, await idOf('\u200b'), CALLBACK)).text).not.toContain('calls itself');
    expect((await open(app, await idOf('Claude', [HOSTED]))).text).not.toContain('Claude');
  });
});

/** An official client signs in and calls a tool. `documented`: the URL of its document; `fixed`: its id. Returns its id. */
async function connect(
  server: { url: string },
  name: string,
  key: string,
  { documented, fixed }: { documented?: string; fixed?: string | undefined },
) {
  const registered = fixed === undefined ? undefined : { client_id: fixed };
  const signIn = createSignIn((page) => handOver(page, { key }), registered);
  Object.assign(signIn.provider, documented !== undefined && { clientMetadataUrl: documented });
  const kind = CLIENTS[name];
  if (kind === undefined) throw new Error('no such client');
  const client = await signedIn(kind, new URL(`${server.url}/mcp`), signIn);
  expect(await client.callTool({ name: 'get_data', arguments: {} })).toMatchObject({
    structuredContent: { owner: 'alice' },
  });
  await client.close();
  return signIn.authorizationUrl()?.searchParams.get('client_id') ?? '';
}

test.each(
  rows(
    [
      ['SDK v1 over Streamable HTTP', 'bun'],
      ['SDK v2 over Streamable HTTP', 'bun'],
      ['SDK v2 over Streamable HTTP', 'deno'],
    ] as const,
    2,
  ),
)('%s signs in on %s by its document, by registration, and by a fixed id, one after another', async (name, runtime) => {
  const id = publish();
  await using server = await startServer({
    runtime,
    env: {
      OAUTH_CLIENTS: id,
      OAUTH_REDIRECTS: 'loopback',
      JWT_SECRET: TEST_SECRET,
      NODE_EXTRA_CA_CERTS: vendor.certFile,
      DENO_CERT: vendor.certFile,
    },
  });
  const { key } = (await (await userOn(server)).create()).body;
  expect(await connect(server, name, key, { documented: id })).toBe(id);
  const registered = await connect(server, name, key, {});
  expect(registered).not.toStartWith('https:');
  expect(await connect(server, name, key, { fixed: registered })).toBe(registered);
});
