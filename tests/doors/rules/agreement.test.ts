// `keys rule test` and a server say the same of random tokens under random rules: whether one is let in, as whom, and by
// which check it fails first.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { databaseOf } from '../../support/database-client.ts';
import { everything } from '../../support/everything.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { encodePart } from '../../support/handmade-token.ts';
import { createIssuer, createKey, type Issuer, type IssuerKey } from '../../support/issuer.ts';
import { jsonLines, keysCommand } from '../../support/keys-command.ts';
import { seeded } from '../../support/model-user.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';

const TOKENS = everything ? 10_000 : 200;
/** Tokens that meet the same rules. */
const EACH = 50;

const PUBLIC_URL = 'https://tools.example';
const SUBJECTS = ['a:b:c', 'a:b:d', 'a:b:*', 'a:b:c:*', 'a:b:c:d', 'x'];
const AUDIENCES = [PUBLIC_URL, `${PUBLIC_URL}/mcp/`, 'u', 'v', 'https://other.example'];
/** Claims of rules, and what a token has that fits. */
const CLAIMS: Readonly<Record<string, object>> = {
  'ref=main': { ref: 'main' },
  'ref=dev': { ref: 'dev' },
  'n=1': { n: 1 },
  '/deep/env=prod': { deep: { env: 'prod' } },
  'list=true': { list: true },
};
const SCOPES = ['read', 'write', 'admin'];
const HOUR_S = 3600;

type Env = Readonly<Record<string, string>>;

interface Server {
  readonly app: TestApp;
  readonly env: Env;
}

// biome-ignore lint/suspicious/noExplicitAny: a rule as a command prints it
type Fields = Record<string, any>;

const random = seeded(73);
const one = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
/** Some of a list, most often few. */
const some = <T>(list: readonly T[], share: number): T[] => list.filter(() => random() < share);
const options = (name: string, values: readonly string[]) => values.flatMap((value) => [`--${name}`, value]);

/** The reasons in a server's log, by the check that fails first at the command. */
const REASONS: Readonly<Record<string, readonly string[]>> = {
  ...{ user: ['malformed'], form: ['malformed'], issuer: ['malformed'], header: ['header'] },
  ...{ times: ['expired', 'not yet', 'lifetime'], bearer: ['claims'], signature: ['signature', 'unknown kid'] },
  ...{ rule: ['no rule', 'several rules'], key: ['revoked', 'blocked', 'other resource'] },
};

async function keySetFile({ keys }: Issuer): Promise<string> {
  const file = join(temporaryFolder(), 'jwks.json');
  await Bun.write(file, JSON.stringify({ keys: keys.map(({ jwk }) => jwk) }));
  return file;
}

/** Makes keys, gives them rules, and ends some of them. Returns their owners. */
async function makeRules(app: TestApp, env: Env, issuers: readonly Issuer[], round: number) {
  const owners: string[] = [];
  for (let made = 0; made < 3; made += 1) {
    const owner = `owner ${round} ${made}`;
    const resource = one([undefined, undefined, 'https://other.example', PUBLIC_URL]);
    const { id } = await app.createKey(owner, { scopes: some(SCOPES, 0.6), resource });
    for (let rules = 0; rules < 3; rules += 1) {
      const issuer = one(issuers);
      const terms = [
        ...['--issuer', issuer.url, '--subject', one(SUBJECTS), ...options('audience', some(AUDIENCES, 0.3))],
        ...(issuer === issuers[0] ? ['--jwks', await keySetFile(issuer)] : []),
        ...options('claim', [
          ...new Map(some(Object.keys(CLAIMS), 0.2).map((claim) => [claim.split('=')[0], claim])).values(),
        ]),
        ...options('scope', some(SCOPES, 0.3)),
      ];
      await keysCommand(env, ['rule', 'add', id, ...terms]); // it may meet another, and be refused
    }
    const end = one([null, null, null, ['revoke', id, '--yes'], ['block', owner, '--yes']]);
    if (end !== null) await app.keys(...end);
    owners.push(owner);
  }
  return owners;
}

/** A token for some rule, which often has something of another. */
async function randomToken(rules: readonly Fields[], issuers: readonly Issuer[], strangers: readonly IssuerKey[]) {
  const nowS = Math.floor(Date.now() / 1000);
  const isOdd = () => random() < 0.04;
  const rule = one(rules);
  const issuer = isOdd() ? one(issuers) : (issuers.find(({ url }) => url === rule.issuer) as Issuer);
  const aud = one<string>(rule.audiences.length > 0 ? rule.audiences : [PUBLIC_URL, `${PUBLIC_URL}/mcp/`]);
  const fitting = rule.claims.map((claim: string) => CLAIMS[claim]);
  const claims = {
    sub: random() < 0.15 ? one(['', 1, undefined, 'a:b:', 'a:b:c', 'a:b:c:d', 'x']) : rule.subject.replace('*', 'c'),
    aud:
      random() < 0.8 ? aud : one<unknown>([[aud, ...some(AUDIENCES, 0.4)], some(AUDIENCES, 0.4), undefined, [[aud]]]),
    iat: isOdd() ? one([nowS + HOUR_S, undefined, `${nowS}`, nowS - 26 * HOUR_S]) : nowS - HOUR_S,
    exp: isOdd() ? one([nowS - HOUR_S / 2, undefined, `${nowS}`, nowS + 26 * HOUR_S]) : nowS + HOUR_S,
    ...(isOdd() && one([{ nbf: nowS + HOUR_S }, { nbf: 'x' }, { nbf: nowS - HOUR_S }])),
    ...(isOdd() && one([{ cnf: {} }, { nonce: 'n' }, { nonce: null }])),
    ...Object.assign({}, ...some(Object.values(CLAIMS), 0.2), ...(isOdd() ? [] : fitting)),
    ...(isOdd() && one([{ ref: ['main'] }, { n: '1' }, { n: 1.5 }, { deep: 'prod' }, { list: [1] }])),
    ...(isOdd() && { iss: one(['https://stranger.example', `${issuer.url}/`, 1]) }),
  };
  const header = isOdd()
    ? one([{ typ: 'logout+jwt' }, { crit: ['b64'], b64: true }, { kid: 'made up' }, { kid: undefined }])
    : {};
  const key = one(isOdd() ? strangers : issuer.keys);
  const token = await issuer.token(claims, { key, header });
  if (!isOdd()) return token;
  const [first, second, third] = token.split('.');
  return one([
    `${token}=`,
    `${token}.${third}`,
    `${encodePart('{"alg":"ES256","alg":"ES256"}')}.${second}.${third}`,
    `${first}.${second}.`,
  ]);
}

/** What a server says of a token at a tool for keys, and what the command says. */
async function saidOf({ app, env }: Server, token: string) {
  const { status, body } = await app.call('whoami', {}, { 'x-api-key': token });
  const [{ checks, as, rule, key }] = jsonLines(await keysCommand(env, ['rule', 'test', '--json'], token));
  const ofToken = checks.filter((check: { rule?: string }) => check.rule === undefined);
  const failing = ofToken.find(({ verdict }: { verdict: string }) => verdict !== 'ok')?.check ?? null;
  const server = status === 200 ? { keyId: body.keyId, scopes: body.scopes } : { requestId: String(body.requestId) };
  const command = as === 'rule' ? { keyId: key.id, scopes: key.scopes } : { as, failing };
  return { token, server, command, rule };
}

test(`${TOKENS} random tokens: the command says what the server does, and why`, async () => {
  await using users = await createIssuer();
  await using fetched = await createIssuer();
  await using given = await createIssuer(); // its key set is in a file
  given.keys.push(await createKey('RS256', 'second'), await createKey('ES256'));
  const issuers = [given, users, fetched];
  const strangers = [await createKey('ES256', 'first'), await createKey('EdDSA', 'third')];
  const common = {
    PUBLIC_URL,
    OAUTH_RESOURCES: 'https://other.example',
    RATE_LIMIT_REQUESTS: '0',
    REVOCATION_LAG_MAX_MS: '250',
  };
  await using bySecret = await createTestApp({ env: common });
  const env = { ...common, DATABASE_URL: databaseOf(bySecret) };
  const settings = { ...env, JWT_ISSUER: users.url };
  await using byIssuer = await createTestApp({ env: { ...settings, JWT_SECRET: undefined } });
  const servers = [
    { app: bySecret, env },
    { app: byIssuer, env: settings },
  ];
  const counts: Record<string, number> = {};
  for (let round = 0; round < TOKENS / EACH; round += 1) {
    const server = servers[round % 2] as (typeof servers)[number];
    const owners = await makeRules(bySecret, server.env, issuers, round);
    server.app.clock.advance(Math.max(250, Date.now() - server.app.clock.nowMs()));
    const rules = jsonLines(await keysCommand(server.env, ['rule', 'list', '--json']));
    const found = [];
    for (let made = 0; made < EACH; made += 1) {
      found.push(await saidOf(server, await randomToken(rules, issuers, strangers)));
    }
    const log = await server.app.log();
    const reasons = new Map(log.map((line) => [line.requestId, line.reason as string]));
    for (const { token, server: said, command, rule } of found) {
      const reason = 'requestId' in said ? reasons.get(said.requestId) : undefined;
      if (reason === undefined)
        expect({ token, rule, said: command }).toEqual({ token, rule, said: said as typeof command });
      else
        expect({ token, reason, reasons: REASONS[command.failing ?? command.as] }).toEqual({
          token,
          reason,
          reasons: expect.arrayContaining([reason]),
        });
      counts[reason ?? 'let in'] = (counts[reason ?? 'let in'] ?? 0) + 1;
    }
    for (const owner of owners) await bySecret.keys('owner', owner, '--delete', '--yes');
  }
  expect(Object.keys(counts).length).toBeGreaterThan(6); // the dice fell on many sides
}, 1_800_000);
