// An app with a key that the tokens of a platform may act as, and the platform: a real issuer.

import { createIssuer, type Issuer, type IssuerKey } from '../../support/issuer.ts';
import { createTestApp, insertKey, type TestApp, type TestAppOptions } from '../../support/test-app.ts';

export interface Workload extends AsyncDisposable {
  readonly app: TestApp;
  readonly issuer: Issuer;
  /** The id and the secret of the key that the rule belongs to. */
  readonly keyId: string;
  readonly key: string;
  readonly ruleId: string;
  /** The audience that the rule has by default. */
  readonly audience: string;
  /** A token that the rule lets in, but for what `claims` and `header` change; undefined leaves a claim out. */
  token(
    claims?: Record<string, unknown>,
    options?: { key?: IssuerKey; header?: Record<string, unknown> },
  ): Promise<string>;
  /** Status of get_data with a token as the key. */
  use(token: string): Promise<number>;
  addRule(...options: string[]): Promise<string>;
}

export const SUBJECT = 'repo:acme/app:ref:refs/heads/main';
const AUDIENCE = 'https://tools.example';

export async function startWorkload(options: TestAppOptions = {}, scopes = ['read']): Promise<Workload> {
  const issuer = await createIssuer();
  const app = await createTestApp({ ...options, env: { PUBLIC_URL: AUDIENCE, ...options.env } });
  const key = await insertKey(app, 'acme', scopes);
  const keyId = JSON.parse(await app.keys('list', '--user', 'acme', '--json')).id;
  const addRule = async (...given: string[]) =>
    (await app.keys('rule', 'add', keyId, '--issuer', issuer.url, '--subject', SUBJECT, ...given)).trim();
  return {
    app,
    issuer,
    keyId,
    key,
    ruleId: await addRule(),
    audience: AUDIENCE,
    async token(claims = {}, given) {
      const nowS = Math.floor(app.clock.nowMs() / 1000);
      return issuer.token({ sub: SUBJECT, aud: AUDIENCE, iat: nowS, exp: nowS + 300, ...claims }, given);
    },
    use: async (token) => (await app.useKey(token)).status,
    addRule,
    async [Symbol.asyncDispose]() {
      await app[Symbol.asyncDispose]();
      await issuer[Symbol.asyncDispose]();
    },
  };
}
