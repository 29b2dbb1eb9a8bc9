// A key that is pasted, one by a click, for a client known by its document too, and one for a program without a browser,
// where processes and databases are beside each other or far apart, on Deno, and behind a proxy with a path: each step at
// another process.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test';
import { join } from 'node:path';
import { userHeaders } from '../../support/client.ts';
import { serveDocuments } from '../../support/client-documents.ts';
import { rows } from '../../support/everything.ts';
import { diskFolder, temporaryFolder } from '../../support/folder.ts';
import { isMissing, startFrontProxy } from '../../support/front-proxy.ts';
import { CALLBACK, makeForConnection, type Registered, register, sentBack } from '../../support/hand-over.ts';
import { askAsPerson, askForKey, type Door, pollForKey, postJsonTo } from '../../support/key-request.ts';
import { startProxy } from '../../support/proxy.ts';
import { type Runtime, startServer, USUAL_RUNTIME } from '../../support/server-process.ts';
import { shared } from '../../support/shared.ts';
import { freePorts, startSqld } from '../../support/sqld.ts';
import { type StoreMode, startStore, storeEnvOn } from '../../support/store-mode.ts';
import { readResponse, TEST_SECRET } from '../../support/test-app.ts';
import { refusedWithin, waitFor } from '../../support/wait-for.ts';

setDefaultTimeout(180_000);

const LAG_MAX_MS = 4000; // a read may take 3 s, on a busy machine too
const FAR_MS = 50;
const ENV = {
  JWT_SECRET: TEST_SECRET,
  OAUTH_REDIRECTS: 'loopback',
  OAUTH_DEVICE: '1',
  REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS),
};
type Env = Readonly<Record<string, string>>;
const DECIDED = { name: 'n', scopes: ['read'], expiresInDays: 1 };

interface Place extends AsyncDisposable {
  /** What clients see. */
  readonly publicUrl: string;
  readonly doors: readonly [Door, Door];
}

async function far(modes: readonly [StoreMode, StoreMode], runtime: Runtime, more: Env): Promise<Place> {
  const stack = new AsyncDisposableStack();
  const sqld = stack.use(await startSqld());
  const proxy = stack.use(await startProxy(sqld.url, { delayMs: FAR_MS }));
  const publicUrl = 'http://127.0.0.1:1'; // the same for both
  const serve = async (mode: StoreMode) => {
    const env = {
      ...ENV,
      PUBLIC_URL: publicUrl,
      ...storeEnvOn({ ...sqld.env, DATABASE_URL: proxy.url }, mode),
      ...(mode === 'replica' && { DATABASE_REPLICA_FILE: join(diskFolder(), 'replica.db') }), // where Deno may write, too
      ...more,
    };
    return stack.use(await startServer({ env, runtime }));
  };
  const doors = [await serve(modes[0]), await serve(modes[1])] as const;
  return { publicUrl, doors, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** Two processes on one file. */
async function beside(more: Env): Promise<Place> {
  const stack = new AsyncDisposableStack();
  const store = stack.use(await startStore('embedded', diskFolder()));
  const publicUrl = 'http://127.0.0.1:1';
  const env = { ...ENV, PUBLIC_URL: publicUrl, ...store.env(), ...more };
  const doors = [
    stack.use(await startServer({ env })),
    stack.use(await startServer({ env, runtime: 'deno' })),
  ] as const;
  return { publicUrl, doors, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** `strips`: the proxy takes the path off, and the servers know it only from PUBLIC_URL. */
async function behindCaddy(strips: boolean, more: Env): Promise<Place> {
  const stack = new AsyncDisposableStack();
  const store = stack.use(await startStore('embedded', temporaryFolder()));
  const [one = 0, two = 0] = freePorts(2);
  const at = (port: number) => `http://127.0.0.1:${port}`;
  const proxy = stack.use(
    await startFrontProxy(
      'caddy',
      'in-front.Caddyfile',
      { '127.0.0.1:3000': at(one), '127.0.0.1:3001': at(two) },
      (recipe) => {
        const withHealth = recipe.replace('/mcp/health', strips ? '/mcp/health' : '/auth/mcp/health');
        return strips ? withHealth.replace(/^keys\.example \{/m, '$&\n\turi strip_prefix /auth') : withHealth;
      },
    ),
  );
  const publicUrl = `${proxy.url}/auth`;
  const env = {
    ...ENV,
    ...store.env(),
    NODE_ENV: 'production',
    TRUST_PROXY: '1',
    PUBLIC_URL: publicUrl,
    BASE_PATH: strips ? '' : '/auth',
    ...more,
  };
  for (const port of [one, two]) stack.use(await startServer({ env: { ...env, PORT: String(port) } }));
  const trusting: Door['fetch'] = (url, init) => proxy.fetch(String(url).slice(proxy.url.length), init);
  const door = { url: publicUrl, fetch: trusting };
  await waitFor(async () => (await trusting(`${publicUrl}/mcp/health`)).status === 200);
  return { publicUrl, doors: [door, door], [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

const PLACES: [string, isProduction: boolean, (more: Env) => Promise<Place>][] = [
  ['a file, one on Deno', false, beside],
  ['a primary 50 ms away, one with a replica', false, (more) => far(['remote', 'replica'], USUAL_RUNTIME, more)],
  ['behind Caddy, which takes the path off', true, (more) => behindCaddy(true, more)],
  ['a primary 50 ms away', false, (more) => far(['remote', 'remote'], USUAL_RUNTIME, more)],
  ['replicas of it', false, (more) => far(['replica', 'replica'], USUAL_RUNTIME, more)],
  ['on Deno, one with a replica', false, (more) => far(['remote', 'replica'], 'deno', more)],
  ['behind Caddy, below a path', true, (more) => behindCaddy(false, more)],
];

const vendor = await shared(serveDocuments());
const CLIENT_ID = `${vendor.origin}/client.json`;
vendor.documents.set('/client.json', () => Response.json({ client_id: CLIENT_ID, redirect_uris: [CALLBACK] }));
const KNOWN = { NODE_EXTRA_CA_CERTS: vendor.certFile, DENO_CERT: vendor.certFile, OAUTH_CLIENTS: CLIENT_ID };

const call = async (door: Door, tool: string, body: object, headers: Record<string, string>) =>
  readResponse(await postJsonTo(door, `/tools/${tool}`, body, headers));

const statusOf = async (door: Door, key: string) => (await call(door, 'get_data', {}, { 'x-api-key': key })).status;

/** Twenty at once, ten at each. */
const race = <T>(doors: Place['doors'], redeem: (door: Door) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: 20 }, (_, at) => redeem(doors[at % 2 === 0 ? 0 : 1])));

/** The only one of them that got a key. */
function winnerOf(raced: readonly { status: number; body: Record<string, unknown> }[]): string {
  const keys = raced.filter(({ status }) => status === 200).map(({ body }) => body.access_token);
  expect(keys).toHaveLength(1);
  expect(raced.filter(({ body }) => body.error === 'invalid_grant')).toHaveLength(raced.length - 1);
  return String(keys[0]);
}

/** It is the owner's only key, for this server, good at both, and refused within the bound once it was ended. */
async function expectWhole({ doors: [a, b], publicUrl }: Place, key: string, user: Record<string, string>) {
  expect([await statusOf(a, key), await statusOf(b, key)]).toEqual([200, 200]);
  const { keys } = (await call(b, 'list_api_keys', {}, user)).body;
  expect(keys).toMatchObject([{ ...{ name: 'n', scopes: ['read'] }, resource: publicUrl }]);
  await call(b, 'revoke_api_key', { keyId: keys[0].id }, user);
  await refusedWithin(LAG_MAX_MS, () => statusOf(a, key));
}

/** The code that a click sends the client back with. */
async function codeIn(clicked: Response, publicUrl: string): Promise<string> {
  const { location } = (await clicked.json()) as { location: string };
  const { searchParams } = new URL(location);
  expect(searchParams.get('iss')).toBe(publicUrl);
  return searchParams.get('code') ?? '';
}

for (const [name, isProduction, start] of rows(PLACES, 3)) {
  describe.skipIf(isProduction && isMissing('caddy'))(name, () => {
    let place: Place;
    beforeAll(async () => {
      place = await start(isProduction ? {} : KNOWN); // production takes no client of loopback
    }, 180_000);
    afterAll(() => place[Symbol.asyncDispose]());

    test('pasted, by a click, then for a program', async () => {
      const { doors, publicUrl } = place;
      const [a, b] = doors;
      const { origin, pathname } = new URL(publicUrl);
      const ask = b.fetch ?? fetch;
      const known = await ask(
        `${b.fetch ? origin : b.url}/.well-known/oauth-authorization-server${pathname.replace(/\/$/, '')}`,
      );
      expect(await known.json()).toMatchObject({
        issuer: publicUrl,
        authorization_endpoint: `${publicUrl}/authorize`,
        device_authorization_endpoint: `${publicUrl}/device_authorization`,
      });

      const alice = await userHeaders('alice');
      const client = await register(a);
      const page = client.page({ resource: `${publicUrl}/mcp` });
      const { key } = (await call(a, 'create_api_key', { ...DECIDED, resource: publicUrl }, alice)).body;
      const form = new URLSearchParams([...page.searchParams, ['key', key]]);
      const pasting = { method: 'POST', body: form, headers: { origin }, redirect: 'manual' } as const;
      const pasted = await sentBack(await ask(`${b.url}/authorize`, pasting));
      const redeemPasted = (door: Door) => client.redeem(pasted.get('code') ?? '', {}, {}, door);
      expect(winnerOf(await race(doors, redeemPasted))).toBe(key);
      await expectWhole(place, key, alice);
      await call(b, 'delete_api_key', { keyId: (await call(b, 'list_api_keys', {}, alice)).body.keys[0].id }, alice);

      const html = await (await ask(`${b.url}/authorize${page.search}`)).text();
      expect(html).toContain(`href="${publicUrl}/keys#connect=`);
      expect((await ask(`${b.url}/keys`)).status).toBe(200);
      const clicked = await makeForConnection(b, page, alice, DECIDED);
      const code = await codeIn(clicked, publicUrl);
      await expectWhole(place, winnerOf(await race(doors, (door) => client.redeem(code, {}, {}, door))), alice);

      const bob = await userHeaders('bob');
      const { body: asked } = await askForKey(a, { client_name: 'agent', scope: 'read' });
      const { device_code: deviceCode, user_code: userCode } = asked;
      expect(asked.verification_uri_complete).toBe(`${publicUrl}/keys#ask=${userCode}`);
      expect((await pollForKey(b, deviceCode)).body.error).toBe('authorization_pending');
      const { body: shown } = await askAsPerson(b, 'request', { userCode }, bob);
      expect(shown).toMatchObject({ clientName: 'agent', address: '127.0.0.1', resource: publicUrl });
      const decision = { userCode, approve: true, ...DECIDED };
      expect((await askAsPerson(b, 'decision', decision, bob)).body).toEqual({ approved: true });
      expect((await askAsPerson(a, 'decision', decision, bob)).status).toBe(404); // it was decided
      await expectWhole(place, winnerOf(await race(doors, (door) => pollForKey(door, deviceCode))), bob);
    });

    test('by a click, for a client that is known by its document', async () => {
      await using other = isProduction ? await start({ ...KNOWN, NODE_ENV: 'test' }) : null;
      const own = other ?? place;
      const { doors, publicUrl } = own;
      const [a, b] = doors;
      const carol = await userHeaders('carol');
      const hand: Registered = await register(a); // for its verifier
      const page = hand.page({ client_id: CLIENT_ID, resource: `${publicUrl}/mcp` });
      const html = await (await (a.fetch ?? fetch)(`${a.url}/authorize${page.search}`)).text();
      expect(html).toContain(`It says that it is <bdi>${new URL(CLIENT_ID).host}</bdi>, which nobody can prove.`);
      const code = await codeIn(await makeForConnection(b, page, carol, DECIDED), publicUrl);
      const raced = await race(doors, (door) => hand.redeem(code, { client_id: CLIENT_ID }, {}, door));
      await expectWhole(own, winnerOf(raced), carol);
    });
  });
}
