// An app with a key that the tokens of a platform may act as, and the platform: a real issuer.

import { createIssuer, type Issuer } from '../../support/issuer.ts';
import { createTestApp, insertKey, type TestAppOptions } from '../../support/test-app.ts';

export type Workload = Awaited<ReturnType<typeof startWorkload>>;

export const SUBJECT = 'repo:acme/app:ref:refs/heads/main';
const AUDIENCE = 'https://tools.example';

export async function startWorkload(options: TestAppOptions = {}, scopes = ['read']) {
  const issuer = await createIssuer();
  const app = await createTestApp({ ...options, env: { PUBLIC_URL: AUDIENCE, ...options.env } });
  const key = await insertKey(app, 'acme', scopes);
  const keyId: string = JSON.parse(await app.keys('list', '--user', 'acme', '--json')).id;
  const addRule = async (...given: string[]) =>
    (await app.keys('rule', 'add', keyId, '--issuer', issuer.url, '--subject', SUBJECT, ...given)).trim();
  return {
    app,
    issuer,
    /** The id and the secret of the key that the rule belongs to. */
    keyId,
    key,
    ruleId: await addRule(),
    /** The audience that the rule has by default. */
    audience: AUDIENCE,
    /** A token that the rule lets in, but for what `claims` and `given` change; undefined leaves a claim out. */
    async token(claims: Record<string, unknown> = {}, given: Parameters<Issuer['token']>[1] = {}) {
      const nowS = Math.floor(app.clock.nowMs() / 1000);
      return issuer.token({ sub: SUBJECT, aud: AUDIENCE, iat: nowS, exp: nowS + 300, ...claims }, given);
    },
    /** Status of get_data with a token as the key. */
    use: async (token: string) => (await app.useKey(token)).status,
    addRule,
    async [Symbol.asyncDispose]() {
      await app[Symbol.asyncDispose]();
      await issuer[Symbol.asyncDispose]();
    },
  };
}
