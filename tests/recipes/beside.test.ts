// The routes of an app beside the server (beside/), with users as apps have them. A browser goes their way in
// browser/page/beside.test.ts.

import { expect, test } from 'bun:test';
import { decodeJwt } from 'jose';
import { TEST_SECRET } from '../support/test-app.ts';

const KEYS_URL = 'https://keys.example';
const ASKED = new URLSearchParams({ return: `${KEYS_URL}/keys`, state: 'state' });

type User = { readonly id?: unknown; readonly name: string };

/** Returns the handler of a recipe, as an app of this environment imports it. */
async function recipe(file: string) {
  const { env } = process;
  process.env = { ...env, KEYS_URL, JWT_SECRET: TEST_SECRET };
  try {
    return (await import(`./beside/${file}.js?users`)).keysSignIn;
  } finally {
    process.env = env;
  }
}

/** How each recipe sends a user on: resolves with the address. */
const WAYS: Record<string, (user: User) => Promise<string>> = {
  async bun(user) {
    const signIn = (await recipe('bun'))(() => user);
    return (await signIn(new Request(`https://app.example/keys-sign-in?${ASKED}`))).headers.get('location') ?? '';
  },
  async express(user) {
    const sent: string[] = [];
    const response = { set() {}, redirect: (_: number, to: string) => void sent.push(to) };
    await (await recipe('express'))(() => user)({ query: Object.fromEntries(ASKED) }, response);
    return sent.join();
  },
};

test.each(Object.entries(WAYS))(
  '%s: an id may be a number, and a user without one gets no token',
  async (_, sentTo) => {
    for (const id of ['alice', 17]) {
      const { hash } = new URL(await sentTo({ id, name: 'Alice' }));
      expect(decodeJwt(new URLSearchParams(hash.slice(1)).get('token') ?? '').sub).toBe(String(id));
    }
    for (const id of [undefined, null]) await expect(sentTo({ id, name: 'Alice' })).rejects.toThrow(TypeError);
  },
);
