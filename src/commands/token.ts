// `bun run token --sub alice [--expires 24h] [--claim name=value]…`: mints a user JWT with the secret, issuer and
// audience the server uses.

import { parseArgs } from 'node:util';
import { SignJWT } from 'jose/jwt/sign';
import { parseConfig } from '../config/config.ts';
import type { Env } from '../config/env.ts';
import { developmentSecret } from '../jwt/dev-secret.ts';
import { isSubject, SUBJECT_CHARS_MAX } from '../jwt/identity.ts';
import { parseDuration } from '../lib/duration.ts';
import { reasonOf } from '../lib/text.ts';
import { asksForHelp } from './help.ts';

const USAGE = 'usage: bun run token --sub <user> [--expires <n>s|m|h|d] [--claim <name>=<value>]…';

/** The JWT, or an Error that says what to do. */
async function mintToken(args: readonly string[], env: Env): Promise<string> {
  const options = parseArguments(args);
  const parsed = parseConfig(env);
  if (!parsed.ok) throw new Error(parsed.error.join('\n'));
  const { jwt, jwtIssuer, jwtAudience, database } = parsed.value;
  if (jwt.kind === 'jwks' || jwt.kind === 'discovery') {
    throw new Error('tokens come from the issuer here: JWT_ISSUER or JWT_JWKS_URL is set');
  }
  const secret = jwt.kind === 'secret' ? jwt.secret : developmentSecret(database);
  const nowS = Math.floor(Date.now() / 1000);
  const token = new SignJWT(options.claims)
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setSubject(options.sub)
    .setIssuedAt(nowS)
    .setExpirationTime(nowS + options.expiresMs / 1000);
  if (jwtIssuer !== null) token.setIssuer(jwtIssuer);
  if (jwtAudience !== null) token.setAudience(jwtAudience);
  return token.sign(new TextEncoder().encode(secret));
}

interface TokenOptions {
  readonly sub: string;
  readonly expiresMs: number;
  readonly claims: Readonly<Record<string, string>>;
}

function parseArguments(args: readonly string[]): TokenOptions {
  const { sub, expires, claim } = optionsOf(args);
  if (sub === '') throw new Error(USAGE);
  if (!isSubject(sub))
    throw new Error(`--sub: expected 1 to ${SUBJECT_CHARS_MAX} characters without control characters`);
  const expiresMs = parseDuration(expires);
  if (expiresMs === null) throw new Error(`--expires: expected a time like 30s, 15m, 24h or 7d\n${USAGE}`);
  const claims = claim.map((pair) => /^([^=]+)=(.*)$/s.exec(pair)?.slice(1) ?? []);
  if (claims.some(([name]) => name === undefined)) throw new Error(`--claim: expected <name>=<value>\n${USAGE}`);
  return { sub, expiresMs, claims: Object.fromEntries(claims) };
}

function optionsOf(args: readonly string[]) {
  const options = {
    sub: { type: 'string', default: '' },
    expires: { type: 'string', default: '24h' },
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
    process.stdout.write(`${await mintToken(args, process.env)}\n`);
  } catch (error) {
    process.stderr.write(`${reasonOf(error)}\n`);
    process.exitCode = 1;
  }
}

if (import.meta.main) await main(process.argv.slice(2));
