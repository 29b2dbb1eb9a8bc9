// Floods of tokens that name the issuer of a rule and have a false signature: what they leave to others, counted in checks
// that come before, not in time. Requests are made in this process, because no client sends so many at once.

import { expect, test } from 'bun:test';
import { everything } from '../../support/everything.ts';
import { createKey } from '../../support/issuer.ts';
import { COUNTED, insertKey, metricsOf, NO_CONNECTION } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';
import { startWorkload, type Workload } from './workload.ts';

const FLOOD = everything ? 10_000 : 3000;
/** The budget of an address, or of a service's key, at first. */
const BURST = 1000;
/** Signatures beyond budgets that may wait. */
const PLACES = 500;
/** So many checks may end while a request goes through the server. */
const PASSING = 100;
const HERE = '198.51.100.1';

const startFlooded = () =>
  startWorkload({ env: { TRUST_PROXY: '1', RATE_LIMIT_REQUESTS: '0', ...COUNTED } }, ['read', 'introspect']);

/** The same token with other signatures. */
function falseTokens(token: string, count: number): string[] {
  const unsigned = token.slice(0, token.lastIndexOf('.'));
  const random = () => crypto.getRandomValues(new Uint8Array(64));
  return Array.from({ length: count }, () => `${unsigned}.${Buffer.from(random()).toString('base64url')}`);
}

type Ask = (token: string, address: string) => Promise<Response>;

/** Asks an app, each time from an address, and knows how many signatures of a flood have been checked. */
function callsTo({ app }: Workload) {
  let checked = 0;
  const send = async (path: string, address: string, init: { headers: Record<string, string>; body?: BodyInit }) =>
    app.handler.fetch(
      new Request(app.url + path, {
        method: 'POST',
        ...init,
        headers: { 'x-forwarded-for': address, ...init.headers },
      }),
      NO_CONNECTION,
    );
  const use: Ask = (token, address) => send('/tools/whoami', address, { headers: { 'x-api-key': token } });
  return {
    use,
    /** Asks as a service, with this key. */
    introspectBy:
      (key: string): Ask =>
      (token, address) =>
        send('/introspect', address, {
          headers: { authorization: `Bearer ${key}` },
          body: new URLSearchParams({ token }),
        }),
    /** What is answered, and how many of the flood were checked meanwhile. */
    async among(asked: Promise<Response>) {
      const before = checked;
      const response = await asked;
      const checksBefore = checked - before;
      return { status: response.status, body: await response.json(), checksBefore };
    },
    /** Presents all at once. Returns how many were checked, and how many found no place. */
    async flood(tokens: readonly string[], addressOf: (at: number) => string, ask = use) {
      const counts = { checked: 0, refused: 0 };
      const all = tokens.map(async (token, at) => {
        const { status, headers } = await ask(token, addressOf(at));
        if (status === 429) expect(headers.get('retry-after')).toBe('1');
        else checked += 1;
        counts[status === 429 ? 'refused' : 'checked'] += 1;
      });
      await Promise.all(all);
      return counts;
    },
  };
}

test.each([
  ['one address', () => '192.0.2.1', 1],
  ['1,000 addresses', (at: number) => `10.0.${Math.floor((at % 1000) / 250)}.${at % 250}`, 1000],
] as const)(
  'beside a flood from %s good tokens have their turn; keys and known tokens do not wait',
  async (_, addressOf, sources) => {
    await using workload = await startFlooded();
    const { app, key } = workload;
    const { flood, use, among } = callsTo(workload);
    const [known, one, another, later] = await Promise.all([1, 2, 3, 4].map((jti) => workload.token({ jti })));
    for (const good of [known, key]) expect((await use(good as string, HERE)).status).toBe(200);
    const flooded = flood(falseTokens(known as string, FLOOD), addressOf);
    const [byKey, byKnown, ...byNew] = await Promise.all([
      among(use(key, addressOf(0))),
      among(use(known as string, addressOf(0))),
      among(use(one as string, HERE)),
      among(use(another as string, '198.51.100.2')),
    ]);
    for (const { status } of [byKey, byKnown, ...byNew]) expect(status).toBe(200);
    for (const { checksBefore } of [byKey, byKnown]) expect(checksBefore).toBeLessThan(PASSING);
    for (const { checksBefore } of byNew) expect(checksBefore).toBeLessThan(2 * sources + PASSING);
    const { checked, refused } = await flooded;
    if (sources === 1) expect(checked).toBeWithin(BURST + PLACES, BURST + 2 * PLACES);
    else expect(refused).toBe(0);
    app.clock.advance(1000); // which brings some of the budget back
    expect((await use(later as string, addressOf(0))).status).toBe(200);
  },
  180_000,
);

test('a token that its issuer has signed, but that no rule lets in, costs its address as a false one does', async () => {
  await using workload = await startFlooded();
  const { flood, use } = callsTo(workload);
  const token = await workload.token({ sub: 'repo:stranger/app' }); // anybody may have one of a public issuer
  const copies = (count: number) => Array<string>(count).fill(token);
  expect((await use(token, HERE)).status).toBe(401);
  expect(await flood(copies(BURST), () => HERE)).toEqual({ checked: BURST, refused: 0 });
  expect((await flood(copies(FLOOD), () => HERE)).checked).toBeWithin(PLACES, 2 * PLACES);
}, 180_000);

test('a good token that took nothing from the budget of its address gives nothing back', async () => {
  await using workload = await startFlooded();
  const { flood, use } = callsTo(workload);
  const good = await Promise.all(Array.from({ length: BURST }, (_, jti) => workload.token({ jti })));
  const falses = (count: number) => falseTokens(good[0] as string, count);
  expect(await flood(falses(BURST), () => HERE)).toEqual({ checked: BURST, refused: 0 });
  for (let at = 0; at < BURST; at += PLACES) {
    const responses = await Promise.all(good.slice(at, at + PLACES).map((token) => use(token, HERE)));
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
  }
  expect((await flood(falses(FLOOD), () => HERE)).checked).toBeWithin(PLACES, 2 * PLACES);
}, 180_000);

test('a good token without kid that finds no place is 429, whatever keys of the set it was not tried with', async () => {
  await using workload = await startFlooded();
  const { use, flood } = callsTo(workload);
  workload.issuer.keys = await Promise.all([1, 2].map(() => createKey('ES256')));
  const good = await Promise.all(Array.from({ length: 3 * PLACES }, (_, jti) => workload.token({ jti })));
  const falses = falseTokens(good[0] as string, BURST);
  const flooded = flood(falses, () => HERE); // its budget
  const statuses: number[] = [];
  for (const token of good) void use(token, HERE).then(({ status }) => statuses.push(status));
  while (statuses.length < good.length) {
    void flood(falses.slice(0, PASSING), () => HERE);
    await Bun.sleep(1); // meanwhile signatures are checked
  }
  expect(statuses).toContain(429);
  expect(statuses).not.toContain(401);
  await flooded;
}, 180_000);

test('beside a flood through a service good tokens have their turn at another, and at the server', async () => {
  await using workload = await startFlooded();
  const { app, key } = workload;
  const { flood, use, introspectBy, among } = callsTo(workload);
  const other = introspectBy(await insertKey(app, 'another service', ['introspect']));
  const [known, one, another] = await Promise.all([1, 2, 3].map((jti) => workload.token({ jti })));
  expect(await (await other(known as string, HERE)).json()).toMatchObject({ active: true });
  const flooded = flood(falseTokens(known as string, FLOOD), () => HERE, introspectBy(key));
  const [atOther, atServer, byKnown] = await Promise.all([
    among(other(one as string, HERE)),
    among(use(another as string, HERE)),
    among(introspectBy(key)(known as string, HERE)),
  ]);
  expect([atOther.body.active, atServer.status, byKnown.body.active]).toEqual([true, 200, true]);
  expect(byKnown.checksBefore).toBeLessThan(PASSING);
  for (const { checksBefore } of [atOther, atServer]) expect(checksBefore).toBeLessThan(PASSING);
  expect((await flooded).checked).toBeWithin(BURST + PLACES, BURST + 2 * PLACES);
}, 180_000);

test('tokens of an issuer that no rule names cost no signature, no fetch, no read and no budget', async () => {
  await using workload = await startFlooded();
  const { app, issuer } = workload;
  const { flood, use } = callsTo(workload);
  expect((await use(await workload.token(), HERE)).status).toBe(200);
  const strange = await workload.token({ iss: 'https://stranger.example' });
  const tokensIn = (metrics: string) => metrics.match(/^mcp_keys_tokens_total.*$/gm);
  const costs = async () => [await app.storeReads(), issuer.hits('/jwks'), tokensIn(await metricsOf(app.url))];
  const before = await costs();
  expect(await flood(falseTokens(strange, FLOOD), () => HERE)).toEqual({ checked: FLOOD, refused: 0 });
  expect(await costs()).toEqual(before);
  // The budget is as it was.
  const { refused } = await flood(falseTokens(await workload.token(), BURST + PLACES), () => HERE);
  expect(refused).toBe(0);
}, 180_000);

test('made-up key ids cause one fetch in 10 s, and nobody else waits for it', async () => {
  await using workload = await startFlooded();
  const { app, issuer } = workload;
  const { flood, use } = callsTo(workload);
  expect((await use(await workload.token(), HERE)).status).toBe(200);
  const kids = Array.from({ length: 100 }, (_, kid) => workload.token({}, { header: { kid: `made up ${kid}` } }));
  const madeUp = await Promise.all(kids);
  const answer = Promise.withResolvers<void>();
  const keys = issuer.keys.map(({ jwk }) => jwk);
  issuer.overrides.set('/jwks', async () => {
    await answer.promise;
    return Response.json({ keys });
  });
  const fetches = issuer.hits('/jwks');
  const flooded = flood(madeUp, () => '192.0.2.1');
  await waitFor(() => issuer.hits('/jwks') > fetches);
  expect((await use(await workload.token({ jti: 'new' }), HERE)).status).toBe(200); // while the issuer is silent
  answer.resolve();
  expect(await flooded).toEqual({ checked: madeUp.length, refused: 0 });
  app.clock.advance(9999);
  await flood(madeUp, () => '192.0.2.1');
  expect(issuer.hits('/jwks')).toBe(fetches + 1);
  app.clock.advance(1);
  await flood(madeUp, () => '192.0.2.1');
  expect(issuer.hits('/jwks')).toBe(fetches + 2);
}, 180_000);
