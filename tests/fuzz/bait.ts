// Real credentials of every kind, made on the server under test and put wherever they don't belong, and the check that
// none of them comes back, in an answer, a log line or anything else the server writes.

import { callOver, userToken } from '../support/client.ts';
import { TEST_SECRET } from '../support/test-app.ts';

export interface Bait {
  /** User tokens, good for the whole run. */
  readonly tokens: readonly string[];
  readonly keys: readonly string[];
  /** Refused ones: revoked, expired, never issued, signed by somebody else, of a database. */
  readonly badKeys: readonly string[];
  readonly badTokens: readonly string[];
  /** Ids of keys there are. */
  readonly keyIds: readonly string[];
  /** What is put anywhere, and must come back from nowhere. */
  readonly secrets: readonly string[];
  /** What nobody sends, and must come from nowhere either. */
  readonly kept: readonly string[];
}

export const USERS = 40;

export async function makeBait(url: string): Promise<Bait> {
  const tokens = await Promise.all(Array.from({ length: USERS }, (_, user) => userToken(`user-${user}`)));
  const create = async (user: number, input: object) => {
    const headers = { authorization: `Bearer ${tokens[user]}` };
    const { status, body } = await callOver(
      url,
      'create_api_key',
      { name: 'bait', scopes: ['read'], ...input },
      headers,
    );
    if (status !== 200) throw new Error(`create_api_key answered ${status}`);
    return body as { id: string; key: string };
  };
  const good = [await create(0, {}), await create(1, {}), await create(2, { scopes: [] })];
  const revoked = await create(3, {});
  await callOver(url, 'revoke_api_key', { keyId: revoked.id }, { authorization: `Bearer ${tokens[3]}` });
  const expired = await create(4, { expiresInDays: 1e-9 });
  const keys = good.map(({ key }) => key);
  const badKeys = [revoked.key, expired.key, `sk_live_${'5a'.repeat(32)}`];
  const stranger = await userToken('user-0', 'the secret of somebody else, 32 bytes or more');
  const databaseToken = await userToken('database', 'the secret of a database, also 32 bytes long');
  const hashes = keys.map((key) => new Bun.CryptoHasher('sha256').update(key).digest('hex'));
  return {
    tokens,
    keys,
    badKeys,
    badTokens: [stranger, databaseToken],
    keyIds: [...good, revoked, expired].map(({ id }) => id),
    secrets: [...keys, ...badKeys, ...tokens.slice(0, 2), stranger, databaseToken, ...hashes],
    kept: [TEST_SECRET],
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
