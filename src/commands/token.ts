// `bun run token --sub alice [--expires 24h] [--claim name=value]… [--link]`: mints a user JWT with the secret, issuer
// and audience of the server, or a link to the page of keys with the token in it.

import { parseArgs } from 'node:util';
import { SignJWT } from 'jose/jwt/sign';
import { type Config, keysPageUrl, parseConfig } from '../config/config.ts';
import type { Env } from '../config/env.ts';
import { developmentSecret } from '../jwt/dev-secret.ts';
import { isSubject, SUBJECT_CHARS_MAX } from '../jwt/identity.ts';
import { parseDuration } from '../lib/duration.ts';
import { reasonOf } from '../lib/text.ts';
import { addressOf } from '../server/banner.ts';
import { asksForHelp } from './help.ts';

const USAGE = 'usage: bun run token --sub <user> [--expires <n>s|m|h|d] [--claim <name>=<value>]… [--link]';

/** A link is exposed in more places than a token: in chats, in the browser's history. */
const EXPIRES = { token: '24h', link: '15m' };

class NoLink extends Error {}

/** The JWT, or the link with it. Throws an Error that says what to do. */
async function mint(args: readonly string[], env: Env): Promise<string> {
  const options = parseArguments(args);
  const parsed = parseConfig(env);
  if (!parsed.ok) throw new Error(parsed.error.join('\n'));
  const { jwt, jwtIssuer, jwtAudience, database } = parsed.value;
  if (jwt.kind === 'jwks' || jwt.kind === 'discovery') {
    const sentence = 'tokens come from the issuer here: JWT_ISSUER or JWT_JWKS_URL is set';
    throw options.link ? new NoLink(sentence) : new Error(sentence);
  }
  const page = options.link ? pageAddress(parsed.value) : null;
  const secret = jwt.kind === 'secret' ? jwt.secret : developmentSecret(database);
  const nowS = Math.floor(Date.now() / 1000);
  const token = new SignJWT(options.claims)
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setSubject(options.sub)
    .setIssuedAt(nowS)
    .setExpirationTime(nowS + options.expiresMs / 1000);
  if (jwtIssuer !== null) token.setIssuer(jwtIssuer);
  if (jwtAudience !== null) token.setAudience(jwtAudience);
  const signed = await token.sign(new TextEncoder().encode(secret));
  return page === null ? signed : `${page}#token=${signed}`;
}

/** The URL of the page of keys, as the server would say it. */
function pageAddress(config: Config): string {
  if (config.keysPage === null) throw new NoLink('--link: there is no page to link to, because KEYS_PAGE is 0');
  const { publicUrl, port, basePath } = config;
  if (publicUrl === null && port === 0) {
    throw new NoLink('--link: the address is not known, because PORT is 0; set PUBLIC_URL');
  }
  return keysPageUrl(publicUrl ?? addressOf(config, port) + basePath);
}

interface TokenOptions {
  readonly sub: string;
  readonly expiresMs: number;
  readonly claims: Readonly<Record<string, string>>;
  readonly link: boolean;
}

function parseArguments(args: readonly string[]): TokenOptions {
  const { sub, claim, link, expires = link ? EXPIRES.link : EXPIRES.token } = optionsOf(args);
  if (sub === '') throw new Error(USAGE);
  if (!isSubject(sub))
    throw new Error(`--sub: expected 1 to ${SUBJECT_CHARS_MAX} characters without control characters`);
  const expiresMs = parseDuration(expires);
  if (expiresMs === null) throw new Error(`--expires: expected a time like 30s, 15m, 24h or 7d\n${USAGE}`);
  const claims = claim.map((pair) => /^([^=]+)=(.*)$/s.exec(pair)?.slice(1) ?? []);
  if (claims.some(([name]) => name === undefined)) throw new Error(`--claim: expected <name>=<value>\n${USAGE}`);
  return { sub, expiresMs, claims: Object.fromEntries(claims), link };
}

function optionsOf(args: readonly string[]) {
  const options = {
    sub: { type: 'string', default: '' },
    expires: { type: 'string' },
    link: { type: 'boolean', default: false },
    claim: { type: 'string', multiple: true, default: [] as string[] },
  } as const;
  try {
    return parseArgs({ args: [...args], options }).values;
  } catch {
    throw new Error(USAGE);
  }
}

export async function main(args: readonly string[]): Promise<void> {
  if (asksForHelp(args)) return void process.stdout.write(`${USAGE}\n`);
  try {
    process.stdout.write(`${await mint(args, process.env)}\n`);
  } catch (error) {
    process.stderr.write(`${reasonOf(error)}\n`);
    process.exitCode = error instanceof NoLink ? 2 : 1;
  }
}

if (import.meta.main) await main(process.argv.slice(2));
