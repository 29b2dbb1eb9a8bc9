// Real credentials of every kind, made on the server under test and put wherever they don't belong, and the check that
// none of them comes back, in an answer, a log line or anything else the server writes.

import { userToken } from '../support/client.ts';
import type { Target } from './settings.ts';

export interface Bait {
  /** User tokens, good for the whole run. */
  readonly tokens: readonly string[];
  readonly keys: readonly string[];
  /** Refused ones: revoked, expired, never issued, signed by somebody else, of a database. */
  readonly badKeys: readonly string[];
  readonly badTokens: readonly string[];
  /** The claims of a good token beside `sub` and `exp`. */
  readonly claims: Target['claims'];
  /** Ids of keys there are. */
  readonly keyIds: readonly string[];
  /** Sent in all places, and must never come back. */
  readonly secrets: readonly string[];
  /** Never sent, and must never come out either. */
  readonly kept: readonly string[];
}

export const USERS = 40;

/** A tool called with a user's token. Throws unless it succeeds. */
// biome-ignore lint/suspicious/noExplicitAny: tests read answers of any shape
export async function callAs(target: Target, token: string, tool: string, input: object = {}): Promise<any> {
  const response = await target.fetch(`/tools/${tool}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(input),
  });
  if (response.status !== 200) throw new Error(`${tool} answered ${response.status}`);
  return response.json();
}

export async function makeBait(target: Target): Promise<Bait> {
  const tokens = await Promise.all(Array.from({ length: USERS }, (_, user) => target.userToken(`user-${user}`)));
  const create = async (user: number, input: object): Promise<{ id: string; key: string }> =>
    callAs(target, tokens[user] ?? '', 'create_api_key', { name: 'bait', scopes: ['read'], ...input });
  const good = [await create(0, {}), await create(1, {}), await create(2, { scopes: [] })];
  const revoked = await create(3, {});
  await callAs(target, tokens[3] ?? '', 'revoke_api_key', { keyId: revoked.id });
  const expired = await create(4, { expiresInDays: 1e-9 });
  const keys = good.map(({ key }) => key);
  const badKeys = [revoked.key, expired.key, `sk_live_${'5a'.repeat(32)}`];
  const stranger = await userToken('user-0', 'the secret of somebody else, 32 bytes or more');
  const databaseToken = await userToken('database', 'the secret of a database, also 32 bytes long');
  const hashes = keys.map((key) => Bun.SHA256.hash(key, 'hex'));
  return {
    tokens,
    keys,
    badKeys,
    badTokens: [stranger, databaseToken],
    claims: target.claims,
    keyIds: [...good, revoked, expired].map(({ id }) => id),
    secrets: [...keys, ...badKeys, ...tokens.slice(0, 2), stranger, databaseToken, ...hashes],
    kept: target.kept,
  };
}

/** The sample of the widget preview (src/widgets/samples.ts). */
const SAMPLE_KEY = `sk_test_${'5a3b1ec0'.repeat(8)}`;
const ANY_KEY = /sk_(?:live|test)_[0-9a-f]{64}/g;
const ANY_TOKEN = /eyJ[\w-]{8,}\.[\w-]{8,}/;

/** What `text` gives away: a piece of it that is secret, or null. */
export function leakIn(text: string, { secrets, kept }: Pick<Bait, 'secrets' | 'kept'>): string | null {
  const key = text.match(ANY_KEY)?.find((found) => found !== SAMPLE_KEY);
  return key ?? ANY_TOKEN.exec(text)?.[0] ?? [...secrets, ...kept].find((secret) => text.includes(secret)) ?? null;
}
