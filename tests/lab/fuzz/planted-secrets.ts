// Real credentials of every kind, made on the server under test and put wherever they don't belong, and the check that
// none of them comes back, in a response, a log line or anything else the server writes.

import { userToken } from '../../support/client.ts';
import type { Target } from './settings.ts';
import { plantClient } from './signing-in.ts';

export type PlantedSecrets = Awaited<ReturnType<typeof plantSecrets>>;

export const USERS = 40;

/** Whose keys may end; with such scopes they take more than one page of a list. */
export const DOOMED_OF = 9;
const DOOMED = 60;
const LONG_SCOPES = [
  'read',
  ...Array.from({ length: 19 }, (_, index) => `${String(index).padStart(2, '0')}${'x'.repeat(98)}`),
];

/**
 * Sends a request again while it is 503: where the revocation bound is short, a busy machine says so for a while, and it
 * tells nothing of what was asked.
 */
async function responseOf(target: Target, path: string, init: RequestInit): Promise<Response> {
  for (;;) {
    const response = await target.fetch(path, init);
    if (response.status !== 503) return response;
    await response.text();
    await Bun.sleep(10);
  }
}

/** A tool called with a user's token. Throws unless it succeeds. */
// biome-ignore lint/suspicious/noExplicitAny: tests read responses of any shape
export async function callAs(target: Target, token: string, tool: string, input: object = {}): Promise<any> {
  const response = await responseOf(target, `/tools/${tool}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(input),
  });
  if (response.status !== 200) throw new Error(`${tool} responded ${response.status}`);
  return response.json();
}

/** The status of a call with a key. */
export async function useKey(target: Target, key: string): Promise<number> {
  const response = await responseOf(target, '/tools/get_data', { method: 'POST', headers: { 'x-api-key': key } });
  await response.text();
  return response.status;
}

export async function plantSecrets(target: Target) {
  const tokens = await Promise.all(Array.from({ length: USERS }, (_, user) => target.userToken(`user-${user}`)));
  const create = async (user: number, input: object): Promise<{ id: string; key: string }> =>
    callAs(target, tokens[user] ?? '', 'create_api_key', { name: 'planted', scopes: ['read'], ...input });
  const good = [await create(0, {}), await create(1, {}), await create(2, { scopes: [] })];
  const service = await create(2, { scopes: ['read', 'introspect', 'delegate'] });
  const revoked = await create(3, {});
  await callAs(target, tokens[3] ?? '', 'revoke_api_key', { keyId: revoked.id });
  const expired = await create(4, { expiresInDays: 1e-9 });
  const rotated = await create(8, {});
  const leak = await create(5, {});
  const rotate = async (user: number, keyId: string): Promise<string> =>
    (await callAs(target, tokens[user] ?? '', 'rotate_api_key', { keyId })).key;
  const inForce = await create(6, {});
  const next = await rotate(6, inForce.id);
  const previous = await create(7, {});
  const replacement = await rotate(7, previous.id);
  await useKey(target, replacement); // completes the rotation
  const doomed = [];
  for (let count = 0; count < DOOMED; count += 1) doomed.push(await create(DOOMED_OF, { scopes: LONG_SCOPES }));
  const page = await callAs(target, tokens[DOOMED_OF] ?? '', 'list_api_keys');
  const keys = good.map(({ key }) => key);
  const badKeys = [revoked.key, expired.key, `sk_live_${'5a'.repeat(32)}`];
  const stranger = await userToken('user-0', 'the secret of somebody else, 32 bytes or more');
  const databaseToken = await userToken('database', 'the secret of a database, also 32 bytes long');
  const hashes = keys.map((key) => Bun.SHA256.hash(key, 'hex'));
  return {
    /** User tokens, good for the whole run. */
    tokens,
    keys,
    /** Refused ones: revoked, expired, never issued, signed by somebody else, for a database. */
    badKeys,
    badTokens: [stranger, databaseToken],
    /** The claims of a good token beside `sub` and `exp`. */
    claims: target.claims,
    /** A good key of a service: it may ask for others, and make children. */
    service: service.key,
    /** Of keys that may end. */
    doomedIds: doomed.map(({ id }) => id),
    /** Where the second page of their owner's list begins. */
    cursor: page.nextCursor as string,
    /** Of keys that exist; those of good keys first, the service's after them. */
    keyIds: [...good, service, revoked, expired, rotated, leak, inForce, previous].map(({ id }) => id),
    /** Of a key that its owner may rotate. */
    rotatedId: rotated.id,
    /** Sent to /revoke, and nowhere else: one in force, the next of a rotation, and the previous one of another. */
    leaked: [leak.key, next, previous.key],
    /** The other secrets of those two rotations, which stay good. */
    spared: [inForce.key, replacement],
    /** Registered for keys to be handed to; null where none are. */
    client: await plantClient(target, keys[0] ?? ''),
    /** Sent in all places, and must never come back. */
    secrets: [...keys, service.key, ...badKeys, ...tokens.slice(0, 2), stranger, databaseToken, ...hashes],
    /** Never sent, and must never come out either. */
    kept: target.kept,
  };
}

/** The sample of the widget preview (src/pages/widgets/samples.js). */
const SAMPLE_KEY = `sk_test_${'5a3b1ec0'.repeat(8)}`;
const ANY_KEY = /sk_(?:live|test)_[0-9a-f]{64}/g;
const ANY_TOKEN = /eyJ[\w-]{8,}\.[\w-]{8,}/;

/** A secret that `text` gives away, or null. */
export function leakIn(text: string, { secrets, kept }: Pick<PlantedSecrets, 'secrets' | 'kept'>): string | null {
  const key = text.match(ANY_KEY)?.find((found) => found !== SAMPLE_KEY);
  return key ?? ANY_TOKEN.exec(text)?.[0] ?? [...secrets, ...kept].find((secret) => text.includes(secret)) ?? null;
}
