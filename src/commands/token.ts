// `bun run token --sub alice [--expires 24h] [--claim name=value]… [--link]`: mints a user JWT with the server's secret,
// issuer and audience, or a link to the keys page that contains it.

import { resolve } from 'node:path';
import { SignJWT } from 'jose/jwt/sign';
import type { Config } from '../config/config.ts';
import { parseDuration } from '../ground/runtime.ts';
import { createServerAddress } from '../ground/server-address.ts';
import { isSubject, reasonOf, SUBJECT_CHARS_MAX } from '../ground/text.ts';
import { keysPageUrl } from '../ground/urls.ts';
import { developmentSecret } from '../users/dev-secret.ts';
import { EXP_S_MAX, identityOf } from '../users/user-token.ts';
import { command, endWith, mainOf } from './command.ts';
import { CommandError, configOf, type Io, UsageError } from './io.ts';
import { flag, kind, many, needed, optional } from './options.ts';

/** A link is more exposed than a token: in chats, in the browser's history. */
const EXPIRES_MS = { token: 24 * 3_600_000, link: 15 * 60_000 };

const SUBJECT = kind('user', `1 to ${SUBJECT_CHARS_MAX} characters without control characters`, (given) =>
  isSubject(given) ? given : null,
);
const LIFE_MS = kind('<n>s|m|h|d', 'a time like 30s, 15m, 24h or 7d', parseDuration);
const CLAIM = kind('<name>=<value>', '<name>=<value>', (given) => /^([^=]+)=(.*)$/s.exec(given)?.slice(1) ?? null);

export const token = command({
  name: 'token',
  summary:
    'Prints a user token, signed with the secret of the server, or a link to the page of keys that signs in with one. It is valid for 24h, a link for 15m, unless --expires says otherwise.',
  options: { sub: needed(SUBJECT), expires: optional(LIFE_MS), claim: many(CLAIM), link: flag },
  async run({ options, io }) {
    const { sub, link, expires: lastsMs = link ? EXPIRES_MS.link : EXPIRES_MS.token } = options;
    const config = configOf(io, { verifiesUsers: true });
    const { jwt, jwtIssuer, jwtAudience, jwtClaims } = config;
    if (jwt.kind === 'jwks' || jwt.kind === 'discovery')
      throw new CommandError('tokens come from the issuer here: JWT_ISSUER or JWT_JWKS_URL is set', 2);
    const page = link ? pageAddress(config) : null;
    const nowS = Math.floor(Date.now() / 1000);
    const endS = nowS + lastsMs / 1000;
    if (endS > EXP_S_MAX) throw new UsageError('--expires: expected an end that servers take, before the year 5138');
    const secret = jwt.kind === 'secret' ? jwt.secret : keptSecret(jwt.folder, io);
    const claims = Object.fromEntries(options.claim);
    if (!identityOf({ ...claims, sub }, jwtClaims).ok)
      io.say(
        `the server refuses this token: with JWT_OWNER_CLAIM=${jwtClaims.owner} it needs --claim ${jwtClaims.owner}=…`,
      );
    const unsigned = new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
      .setSubject(sub)
      .setIssuedAt(nowS)
      .setExpirationTime(endS);
    if (jwtIssuer !== null) unsigned.setIssuer(jwtIssuer);
    if (jwtAudience !== null) unsigned.setAudience(jwtAudience);
    const signed = await unsigned.sign(new TextEncoder().encode(secret));
    await io.write(page === null ? `${signed}\n` : `${page}#token=${signed}\n`);
    const { PORT, PUBLIC_URL } = io.env;
    // The server may have been started with a variable that this terminal doesn't have.
    if (page !== null && !PORT && !PUBLIC_URL)
      io.say(`for the server at ${new URL(page).host}; for one elsewhere, set its PORT or PUBLIC_URL here too`);
  },
});

/** Returns the folder's secret, or creates and reports one: in a wrong folder no server would use it. */
function keptSecret(folder: string, { say }: Io): string {
  const sayMade = (file: string) =>
    say(`made a secret in ${resolve(file)}: a server that keeps its own elsewhere refuses the token`);
  try {
    return developmentSecret(folder, sayMade);
  } catch (error) {
    throw new CommandError(reasonOf(error));
  }
}

/** Returns the URL of the keys page, like the server. */
function pageAddress(config: Config): string {
  if (config.keysPage === null)
    throw new CommandError('--link: there is no page to link to, because KEYS_PAGE is 0', 2);
  const { publicUrl, port } = config;
  if (publicUrl === null && port === 0)
    throw new CommandError('--link: the address is not known, because PORT is 0; set PUBLIC_URL', 2);
  return keysPageUrl(createServerAddress(config).url);
}

export const main = mainOf(token, 'token');

if (import.meta.main) void endWith(main);
