// Clients that hang up as soon as they have sent their request: what they change has their address in the trail.

import { expect, test } from 'bun:test';
import { connect } from 'node:net';
import { exchangeForm } from '../support/children.ts';
import { bearer, createTestApp, eventsIn, type TestApp } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

/** Sends a request, and hangs up without a word (`reset`) or with one, before there is a response. */
function sendAndLeave(app: TestApp, path: string, type: string, body: string, headers: object, reset: boolean) {
  const { hostname, port } = new URL(app.url);
  const all = { Host: 'localhost', 'Content-Type': type, 'Content-Length': Buffer.byteLength(body), ...headers };
  const head = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return new Promise<void>((resolve, reject) => {
    const socket = connect(Number(port), hostname, () =>
      socket.write(`POST ${path} HTTP/1.1\r\n${head.join('')}\r\n${body}`, () => {
        if (reset) socket.resetAndDestroy();
        else socket.end();
        resolve();
      }),
    );
    socket.on('error', reject);
  });
}

const JSON_TYPE = 'application/json';
const FORM_TYPE = 'application/x-www-form-urlencoded';
const EACH = 8;

/** Headers beside what a route reads: credentials that are none of its own must not keep the address out of the trail. */
const BESIDE = { none: {}, key: { 'X-API-Key': 'x' }, bearer: { Authorization: 'Bearer x' } };

test.each([
  { reset: false, beside: 'none' },
  { reset: true, beside: 'none' },
  { reset: false, beside: 'key' },
  { reset: true, beside: 'bearer' },
] as const)(
  'the trail has the address of eight at once on each route that changes a key; %j',
  async ({ reset, beside }) => {
    await using app = await createTestApp();
    const other = BESIDE[beside];
    const alice = { ...other, Authorization: (await bearer(app, 'alice')).authorization };
    const keys: { readonly id: string; readonly key: string }[] = [];
    for (let made = 0; made < 4 * EACH; made += 1) {
      keys.push(await app.createKey('alice', { scopes: ['read', 'delegate'] }));
    }
    const kinds = async (...wanted: string[]) =>
      (await eventsIn(app, '--limit', '1000')).filter(({ kind, how }) => wanted.includes(kind) && how !== 'command');
    const before = (await kinds('created')).length;
    const next = () => keys.pop() ?? { id: '', key: '' };
    const sent = Array.from({ length: EACH }, () => [
      sendAndLeave(app, '/revoke', JSON_TYPE, JSON.stringify([next().key]), other, reset),
      sendAndLeave(app, '/token', FORM_TYPE, exchangeForm(next().key).toString(), other, reset),
      sendAndLeave(app, '/tools/create_api_key', JSON_TYPE, JSON.stringify({ name: 'k', scopes: [] }), alice, reset),
      sendAndLeave(app, '/tools/revoke_api_key', JSON_TYPE, JSON.stringify({ keyId: next().id }), alice, reset),
      sendAndLeave(app, '/keys/update', JSON_TYPE, JSON.stringify({ keyId: next().id, name: 'renamed' }), alice, reset),
    ]);
    await Promise.all(sent.flat());
    const changed = () => kinds('created', 'revoked', 'changed', 'delegated');
    // Of those that are gone before their request is looked at, nothing is done.
    if (!reset) await waitFor(async () => (await changed()).length === before + 5 * EACH);
    expect((await app.createKey('alice')).id).toBeString(); // which came later
    expect((await changed()).map(({ address }) => address).filter((address) => address !== '127.0.0.1')).toEqual([]);
  },
);

test.each([false, true])(
  'the trail has the address of the first use of a new secret, with which a rotation is complete; reset: %p',
  async (reset) => {
    await using app = await createTestApp();
    const alice = await bearer(app, 'alice');
    const secrets: string[] = [];
    for (let made = 0; made < EACH; made += 1) {
      const { id } = await app.createKey('alice', { scopes: ['read'] });
      const rotated = await app.call('rotate_api_key', { keyId: id }, alice);
      secrets.push(rotated.body.key);
    }
    const firstUses = async () => (await eventsIn(app, '--limit', '1000')).filter(({ kind }) => kind === 'first_used');
    await Promise.all(
      secrets.map((key) => sendAndLeave(app, '/tools/get_data', JSON_TYPE, '{}', { 'X-API-Key': key }, reset)),
    );
    if (!reset) await waitFor(async () => (await firstUses()).length === EACH);
    for (const key of secrets) expect((await app.useKey(key)).status).toBe(200); // which came later
    expect(await firstUses()).toHaveLength(EACH);
    expect((await firstUses()).map(({ address }) => address).filter((address) => address !== '127.0.0.1')).toEqual([]);
  },
);
