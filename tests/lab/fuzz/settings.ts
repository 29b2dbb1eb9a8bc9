// The servers that are fuzzed: each is a process with its own configuration, and what it talks to.

import type { Socket } from 'node:net';
import { join } from 'node:path';
import { makeCertificate } from '../../support/certificate.ts';
import { userToken } from '../../support/client.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { openSocket } from '../../support/http-socket.ts';
import { createIssuer } from '../../support/issuer.ts';
import { type ServerOptions, type ServerProcess, startServer } from '../../support/server-process.ts';
import { type Sqld, startSqld } from '../../support/sqld.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

export interface Target extends AsyncDisposable {
  readonly server: ServerProcess;
  /** Resolves when the connection can be written to. */
  connect(): Promise<Socket>;
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** A good token of a user. */
  userToken(sub: string): Promise<string>;
  /** The claims of such a token beside `sub` and `exp`. */
  readonly claims: Readonly<Record<string, unknown>>;
  /** Secrets of the server that nobody sends. */
  readonly kept: readonly string[];
  /** True where every response carries Strict-Transport-Security. */
  readonly strict: boolean;
  /** Does something to what the server depends on, again and again, until told to end. */
  readonly trouble: (() => () => Promise<void>) | null;
}

type OnStdout = (chunk: string) => void;

export type SettingName = 'plain' | 'production' | 'issuer' | 'limited' | 'remote' | 'away' | 'replica';

export interface Setting {
  readonly start: (onStdout: OnStdout) => Promise<Target>;
  /** Responses that must occur: without them only nonsense was sent. */
  readonly reached: readonly number[];
}

export const SETTINGS: Readonly<Record<SettingName, Setting>> = {
  /** With a secret, and the rest as it comes. */
  plain: { start: startPlain, reached: [200, 202, 204, 400, 401, 403, 404, 405, 415, 431] },
  /** With the rules of production, over its own TLS. */
  production: { start: startProduction, reached: [200, 201, 202, 204, 303, 400, 401, 403, 404, 405, 415, 431] },
  /** With the users of an issuer that has a key set; callers without a credential are sent there. */
  issuer: { start: startWithIssuer, reached: [200, 202, 400, 401, 404] },
  /** With a rate limit that everybody runs into. */
  limited: { start: startLimited, reached: [200, 201, 303, 400, 401, 429] },
  /** With its keys in a remote database. */
  remote: { start: startRemote, reached: [200, 201, 202, 303, 400, 401, 404] },
  /** With a remote database that freezes, refuses writes, and goes away. */
  away: { start: startAway, reached: [200, 202, 400, 401, 404, 503] },
  /** With a replica of such a database. */
  replica: { start: startReplica, reached: [200, 202, 400, 401, 404, 503] },
};

/** Empty when it was not only nonsense that was sent: which of the responses that must occur did not. */
export const notReached = (setting: SettingName, statuses: ReadonlyMap<number, number>): number[] =>
  SETTINGS[setting].reached.filter((status) => !statuses.has(status));

// Callers come from many addresses: a flood from one of them would be slowed down by design.
const COMMON = { TRUST_PROXY: '1', RATE_LIMIT_REQUESTS: '1000000000' };
/** Keys, to clients and to programs without a browser. */
export const HANDS_OUT = { OAUTH_REDIRECTS: 'loopback', OAUTH_DEVICE: '1' };
export const WITH_SECRET = { ...COMMON, JWT_SECRET: TEST_SECRET };

/** A server, and how to reach it. */
export async function targetOf(
  env: Record<string, string>,
  onStdout: OnStdout,
  more: Partial<Target> & { readonly ca?: string; readonly from?: Pick<ServerOptions, 'root' | 'runtime'> } = {},
): Promise<Target> {
  const { ca, from, ...rest } = more;
  const server = await startServer({ env, onStdout, ...from });
  return {
    server,
    connect: () => openSocket(server.url, ca),
    fetch: (path, init) => fetch(server.url + path, { ...init, ...(ca !== undefined && { tls: { ca } }) }),
    userToken,
    claims: {},
    kept: [TEST_SECRET],
    strict: false,
    trouble: null,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    ...rest,
  };
}

function startPlain(onStdout: OnStdout): Promise<Target> {
  return targetOf(WITH_SECRET, onStdout);
}

function startLimited(onStdout: OnStdout): Promise<Target> {
  return targetOf(
    {
      ...WITH_SECRET,
      ...HANDS_OUT,
      MCP_AUTH: 'lazy',
      RATE_LIMIT_REQUESTS: '5',
      RATE_LIMIT_WINDOW: '2s',
    },
    onStdout,
  );
}

function startProduction(onStdout: OnStdout): Promise<Target> {
  const { certFile, keyFile, cert } = makeCertificate();
  const env = {
    ...WITH_SECRET,
    ...HANDS_OUT,
    NODE_ENV: 'production',
    PUBLIC_URL: 'https://keys.example',
    TLS_CERT_FILE: certFile,
    TLS_KEY_FILE: keyFile,
  };
  return targetOf(env, onStdout, { ca: cert, strict: true });
}

const AUDIENCE = 'https://keys.example';

async function startWithIssuer(onStdout: OnStdout): Promise<Target> {
  const issuer = await createIssuer();
  const env = { ...COMMON, JWT_ISSUER: issuer.url, JWT_AUDIENCE: AUDIENCE, MCP_AUTH: 'eager' };
  const claims = { iss: issuer.url, aud: AUDIENCE };
  const target = await targetOf(env, onStdout, {
    claims,
    userToken: (sub) => issuer.token({ ...claims, sub, exp: Math.floor(Date.now() / 1000) + 3600 }),
  });
  return { ...target, [Symbol.asyncDispose]: () => endBoth(target, issuer) };
}

async function startRemote(onStdout: OnStdout): Promise<Target> {
  const bound = { REVOCATION_LAG_MAX_MS: '10000' }; // long enough on a busy machine, too
  const { target } = await withSqld(onStdout, { ...HANDS_OUT, MCP_AUTH: 'lazy', ...bound });
  return target;
}

async function startAway(onStdout: OnStdout): Promise<Target> {
  const { target, sqld } = await withSqld(onStdout);
  return { ...target, trouble: () => troubleWith(sqld) };
}

async function startReplica(onStdout: OnStdout): Promise<Target> {
  const replica = { DATABASE_REPLICA_FILE: join(temporaryFolder(), 'replica.db') };
  const { target, sqld } = await withSqld(onStdout, replica);
  return { ...target, trouble: () => troubleWith(sqld) };
}

async function withSqld(
  onStdout: OnStdout,
  more: Record<string, string> = {},
): Promise<{ target: Target; sqld: Sqld }> {
  const sqld = await startSqld({ auth: true });
  // The smallest bound: verification soon notices that nobody can say what was revoked.
  const env = { ...WITH_SECRET, ...sqld.env, REVOCATION_LAG_MAX_MS: '250', ...more };
  const kept = [TEST_SECRET, sqld.env.DATABASE_AUTH_TOKEN ?? ''];
  const target = await targetOf(env, onStdout, { kept });
  return { target: { ...target, [Symbol.asyncDispose]: () => endBoth(target, sqld) }, sqld };
}

async function endBoth(first: AsyncDisposable, second: AsyncDisposable): Promise<void> {
  await first[Symbol.asyncDispose]();
  await second[Symbol.asyncDispose]();
}

/** How long the database works, and for how long it then does not. */
const WELL_MS = 700;
const FROZEN_MS = 600;
const READ_ONLY_MS = 300;
const GONE_MS = 300;

function troubleWith(sqld: Sqld): () => Promise<void> {
  let ending = false;
  const run = async () => {
    while (!ending) {
      await Bun.sleep(WELL_MS);
      sqld.freeze();
      await Bun.sleep(FROZEN_MS);
      sqld.thaw();
      await Bun.sleep(WELL_MS);
      await sqld.blockWrites(true);
      await Bun.sleep(READ_ONLY_MS);
      await sqld.blockWrites(false);
      await Bun.sleep(WELL_MS);
      await sqld.kill();
      await Bun.sleep(GONE_MS);
      await sqld.start();
    }
  };
  const ended = run();
  return () => {
    ending = true;
    return ended;
  };
}
