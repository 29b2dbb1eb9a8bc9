// Owners, names and scopes that only look alike are different, end to end, wherever the store is: nothing on the way
// from a token to the database and back folds case, normalizes, trims, cuts or replaces.

import { describe, expect, test } from 'bun:test';
import { rows } from '../support/everything.ts';
import { STORE_MODES } from '../support/store-mode.ts';
import { bearer, createTestApp, type TestApp } from '../support/test-app.ts';

/** Groups of texts that some software takes for the same. */
const ALIKE: Readonly<Record<string, readonly string[]>> = {
  case: ['Zoë', 'zoë', 'ZOË', 'ZOe\u0308'],
  'Turkish and German case': ['ı', 'i', 'I', 'İ', 'ß', 'ss', 'SS', 'ẞ'],
  normalization: [
    '\u00e9',
    'e\u0301',
    '\u1e9b\u0323',
    '\u1e9b',
    '\ufb01',
    'fi',
    '\u00c5',
    '\u212b',
    'A\u030a',
    '\uac00',
    '\u1100\u1161',
  ],
  homoglyphs: ['paypal', 'pаypal', 'раураl', 'paypaI', 'ｐａｙｐａｌ'],
  'white space': ['bob', ' bob', 'bob ', 'bob\u00a0', 'bob\u2003', 'b ob', 'bob\u200b'],
  'what is not seen': ['eve', 'e\u200dve', 'eve\u200e', '\ufeffeve', 'eve\u00ad', 'eve\u{e0001}', 'eve\ufe0f'],
  'line ends that are no controls': ['ann', 'ann\u2028', 'ann\u2029'],
  'beyond 16 bits': ['😀', '😁', '\ufffd', '\ufffd\ufffd', '\uffff', '\ufffe', '𝒜', 'A', '\u{10ffff}'],
  length: ['a'.repeat(200), 'a'.repeat(199), 'a', 'aa', '😀'.repeat(200), '😀'.repeat(199)],
  numbers: ['1', '01', '1.0', '1e0', '0x1', ' 1', '+1', '१'],
  'what SQL and JSON know': [
    "o'brien",
    "o''brien",
    '%',
    '_',
    'null',
    'NULL',
    'true',
    '?1',
    ':a',
    '\\',
    '\\\\',
    '"',
    '{}',
    '[]',
  ],
  'what JavaScript knows': ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'undefined', 'NaN'],
};
const ALL = Object.values(ALIKE).flat();

/** Texts that can't be told apart everywhere, or belong in no name: they are refused, so that they name nobody. */
const REFUSED = [
  'bob\0',
  'bob\0x',
  '\0',
  'bob\n',
  'bob\r',
  'bob\t',
  'bob\x1b',
  'bob\x7f',
  'bob\x85',
  '\ud83d',
  '\ude00x',
];

/** Long enough for a busy machine to ask a primary whether an owner is blocked. */
const env = { REVOCATION_LAG_MAX_MS: '60000' };

const listed = async (app: TestApp, sub: string) =>
  (await app.call('list_api_keys', {}, await bearer(app, sub))).body.keys as { id: string; name: string }[];

describe.each(rows(STORE_MODES, 1))('on a store that is %s', (store) => {
  test('each owner has exactly their own key, under the name they gave it, and so does the key', async () => {
    expect(new Set(ALL).size).toBe(ALL.length);
    await using app = await createTestApp({ store, env });
    const made: { text: string; id: string; key: string }[] = [];
    for (const text of ALL) {
      made.push({ text, ...(await app.createKey(text, { name: text.trim() === '' ? 'x' : text })) });
    }
    for (const { text, id, key } of made) {
      const keys = await listed(app, text);
      expect({ text, keys: keys.map(({ id, name }) => ({ id, name })) }).toEqual({ text, keys: [{ id, name: text }] });
      const { body } = await app.useKey(key);
      expect({ owner: body.owner, name: body.key.name }).toEqual({ owner: text, name: text });
    }
  });

  test('nobody ends a key of a user whose id looks like theirs', async () => {
    await using app = await createTestApp({ store, env });
    for (const [what, [victim = '', ...others]] of Object.entries(ALIKE)) {
      const { id: keyId, key } = await app.createKey(victim, { name: what });
      for (const other of others) {
        const headers = await bearer(app, other);
        expect((await app.call('revoke_api_key', { keyId }, headers)).status).toBe(200);
        expect((await app.call('delete_api_key', { keyId }, headers)).status).toBe(200);
      }
      expect((await app.useKey(key)).body.owner).toBe(victim);
    }
  });

  test('text with controls or half a character is no owner and no name', async () => {
    await using app = await createTestApp({ store, env });
    await app.createKey('bob');
    for (const text of REFUSED) {
      const payload = { name: text, scopes: [] };
      const asName = await app.call('create_api_key', payload, await bearer(app, 'bob'));
      expect({ text, code: asName.body.code }).toEqual({ text, code: 'invalid_input' });
      const asOwner = await app.call('list_api_keys', {}, await bearer(app, text));
      expect({ text, code: asOwner.body.code }).toEqual({ text, code: 'invalid_token' });
    }
    expect(await listed(app, 'bob')).toHaveLength(1);
  });

  test('scopes are held as they were given', async () => {
    await using app = await createTestApp({ store, env });
    for (const scope of ['READ', 'Read', 'read ', 'read:', 'rea', 'reads', 'read,write', '["read"]']) {
      const made = await app.call('create_api_key', { name: 'x', scopes: [scope] }, await bearer(app, 'ann'));
      if (made.status === 400) continue; // no scope token at all
      expect(made.body.scopes).toEqual([scope]);
      const { body } = await app.useKey(made.body.key);
      expect({ scope, code: body.code }).toEqual({ scope, code: 'insufficient_scope' });
    }
  });
});
