// Creates the verifier of user JWTs from the configuration.

import type { Clock, Sha256 } from '../ground/runtime.ts';
import { OWN_PATHS, type ServerAddress } from '../ground/server-address.ts';
import type { Log } from '../watch/log.ts';
import type { IdentityClaims, UserTokens } from './user-token.ts';
import { issuerOutageIn, secretKey, type VerificationKeys } from './verification-keys.ts';
import { createJwtVerifier, type JwtVerifierOptions } from './verifier.ts';

export type JwtConfig =
  | { readonly kind: 'secret'; readonly secret: string; readonly previous: string | null } // signed with the first
  | { readonly kind: 'dev-secret'; readonly folder: string } // made at first start, kept in a file there
  | { readonly kind: 'jwks'; readonly url: URL }
  | { readonly kind: 'discovery'; readonly issuer: string }; // the issuer's metadata names the key set

export interface UserJwtConfig {
  readonly jwt: JwtConfig;
  readonly jwtIssuer: string | null;
  readonly jwtAudience: string | null;
  readonly jwtClaims: IdentityClaims;
  readonly production: boolean;
}

interface UserJwtOptions {
  readonly clock: Clock;
  readonly sha256: Sha256;
  readonly log: Log;
  readonly address: Pick<ServerAddress, 'origins' | 'path'>;
}

export async function createUserJwts(config: UserJwtConfig, options: UserJwtOptions) {
  const { clock, sha256, log, address } = options;
  const { jwtIssuer: issuer, jwtClaims: claims } = config;
  const keys = await verificationKeys(config, { clock, log });
  const users = userTokensOf(config, address);
  return {
    /** Creates the verifier. `isOfRule`: whether a token acts as a key, by a rule. */
    createVerify: (isOfRule?: JwtVerifierOptions['isOfRule']) =>
      createJwtVerifier({ keys, issuer, audiences: users.audiences, claims, clock, sha256, isOfRule }),
    /**
     * Throws an Error for the operator if the issuer's metadata names another issuer: no token would ever be accepted.
     * Accepts an issuer that is out of reach or slow.
     */
    async checkIssuer(): Promise<void> {
      if (users.by === 'issuer') await (await discovery()).checkIssuer(users.issuer, clock);
    },
    /** Fetches the key set, if there is one, so that the log has an outage before the first user comes. */
    async fetchKeys(): Promise<void> {
      try {
        await keys.get();
      } catch (error) {
        issuerOutageIn(error); // already logged
      }
    },
  };
}

/** Loads what fetches from an issuer, which a server with a secret never needs. */
const discovery = () => import('./discovery.ts');

async function verificationKeys(
  config: UserJwtConfig,
  context: Pick<UserJwtOptions, 'clock' | 'log'>,
): Promise<VerificationKeys> {
  const { jwt } = config;
  const { clock } = context;
  async function keySetOf(source: URL | string): Promise<VerificationKeys> {
    const [{ createJwks }, { loadJwks }] = await Promise.all([import('./jwks.ts'), discovery()]);
    return createJwks({ load: () => loadJwks(source, clock), ...context });
  }
  switch (jwt.kind) {
    case 'secret':
      return jwt.previous === null ? secretKey(jwt.secret) : secretKey(jwt.secret, jwt.previous);
    case 'dev-secret': {
      const { developmentSecret } = await import('./dev-secret.ts'); // who has set a secret or issuer never needs it
      return secretKey(developmentSecret(jwt.folder));
    }
    case 'jwks':
      return keySetOf(jwt.url);
    case 'discovery':
      // In production a wrong issuer must fail the start.
      if (config.production) await (await discovery()).demandKeySet(jwt.issuer, clock);
      return keySetOf(jwt.issuer);
  }
}

/**
 * Returns how users' tokens are verified, as far as that decides which JWTs are theirs. A secret signs only for this server.
 * An issuer also signs for others, so by default it is for the audiences of this server (RFC 8707): its origins, and the
 * resources that clients use there. None comes from a request's Host, which the sender of a token chooses.
 */
export function userTokensOf(
  { jwt, jwtIssuer: issuer, jwtAudience }: UserJwtConfig,
  { origins, path }: UserJwtOptions['address'],
): UserTokens {
  const named = jwtAudience === null ? null : [jwtAudience];
  if (jwt.kind === 'secret' || jwt.kind === 'dev-secret') return { by: 'secret', audiences: named };
  const own = origins.flatMap((origin) => ['', '/', ...OWN_PATHS.map((end) => path + end)].map((end) => origin + end));
  const audiences = named ?? own;
  return issuer === null ? { by: 'key_set', audiences } : { by: 'issuer', issuer, audiences };
}
