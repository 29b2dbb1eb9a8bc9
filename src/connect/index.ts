// Lets OAuth clients use a key: a person pastes it into a page of this server, and the client's access token is that
// key. Signs, seals, verifies, and writes the trail; requests.ts decides. No HTTP. Nothing is stored of clients: the id
// of each holds its redirect URIs under a MAC.

import type { Caller, OriginOf } from '../keys/actor.ts';
import type { Audience } from '../keys/audience.ts';
import { hashKey } from '../keys/key-format.ts';
import { fingerprintOf } from '../keys/record.ts';
import type { KeyIdentity, Verifier } from '../keys/verify.ts';
import { err, ok, type Result } from '../lib/result.ts';
import { joinScopes } from '../lib/scope.ts';
import { createSignedText } from '../lib/signed-text.ts';
import { LIMITS } from '../limits/index.ts';
import { createTokenBuckets } from '../limits/token-bucket.ts';
import type { Log } from '../log/log.ts';
import type { Problem, StoreUnavailable } from '../problem.ts';
import { type CodesOptions, createCodes } from './codes.ts';
import type { ConnectConfig } from './redirects.ts';
import {
  type AuthorizationRequest,
  type Decision,
  decide,
  hostOf,
  locationOf,
  misfit,
  parameter,
  type RegistrationError,
  registrationOf,
  serverOf,
  type TokenError,
  tokenRequestOf,
} from './requests.ts';

export interface ConnectOptions extends CodesOptions {
  readonly config: ConnectConfig;
  readonly publicUrl: () => string;
  /** Signs the ids of clients. */
  readonly readSecret: () => Promise<Result<string, StoreUnavailable>>;
  /** Which database it is: another one has another secret. */
  readonly databaseId: () => string;
  readonly look: Verifier['look'];
  readonly originOf: OriginOf;
  readonly audience: Audience;
  readonly log: Log;
}

/** RFC 6749 §5.1. */
export interface AccessToken {
  readonly access_token: string;
  readonly token_type: 'Bearer';
  readonly scope: string;
  readonly expires_in?: number;
}

export interface Connect {
  readonly audience: Audience;
  register(metadata: unknown): Promise<Result<object, RegistrationError | StoreUnavailable>>;
  /** What the parameters of /authorize ask for. */
  decide(parameters: URLSearchParams): Promise<Result<Decision, StoreUnavailable>>;
  /** Where the person who pasted a good key is sent, with a code for it. */
  grant(
    request: AuthorizationRequest,
    key: string,
    identity: KeyIdentity,
    caller: Caller,
  ): Promise<Result<string, Problem>>;
  /** The token for a form sent to /token. */
  redeem(form: URLSearchParams, caller: Caller): Promise<Result<AccessToken, TokenError | Problem>>;
}

const ATTEMPT_BYTES = 16;

export function createConnect(options: ConnectOptions): Connect {
  const { config, publicUrl, store, look, originOf, audience, clock, random, sha256, log } = options;
  const signedText = createSignedText({ ...options, use: 'client_id' });
  const codes = createCodes(options);
  const handOvers = createTokenBuckets(LIMITS.handOvers, clock);

  /** Null if this server did not register the client. */
  async function redirectsOf(clientId: string): Promise<Result<readonly string[] | null, StoreUnavailable>> {
    const text = await signedText.read(clientId);
    if (!text.ok) return text;
    return ok(text.value === null ? null : (JSON.parse(text.value) as readonly string[])); // signed
  }

  function tokenOf(key: string, { scopes, expiresAtMs }: KeyIdentity): AccessToken {
    const left = expiresAtMs === null ? null : Math.max(0, Math.floor((expiresAtMs - clock.nowMs()) / 1000));
    return {
      access_token: key,
      token_type: 'Bearer',
      scope: joinScopes(scopes),
      ...(left !== null && { expires_in: left }),
    };
  }

  /** Somebody else may have the code too. */
  function refusedAgain(keyId: string, { requestId }: Caller): Result<never, TokenError> {
    log.warnThrottled('code of a client refused', keyId, { requestId, keyId, reason: 'redeemed before' });
    return err('invalid_grant');
  }

  return {
    audience,

    async register(metadata) {
      const registration = registrationOf(metadata, config);
      if (!registration.ok) return registration;
      const clientId = await signedText.sign(JSON.stringify(registration.value.redirect_uris));
      return clientId.ok ? ok({ client_id: clientId.value, ...registration.value }) : clientId;
    },

    async decide(parameters) {
      const redirectUris = await redirectsOf(parameter(parameters, 'client_id') ?? '');
      return redirectUris.ok ? ok(decide(parameters, redirectUris.value, config.redirects, audience)) : redirectUris;
    },

    async grant(request, key, { keyId, subject: userId }, { requestId }) {
      const waitS = handOvers.take(keyId);
      if (waitS > 0) {
        log.warnThrottled('Rate limit exceeded', `connect ${keyId}`, { requestId, keyId, userId });
        return err({ code: 'rate_limited', retryAfterS: Math.ceil(waitS) });
      }
      const { clientId, redirectUri, challenge, resource } = request;
      const client = sha256(clientId, 'base64url');
      const code = await codes.seal({ key, client, challenge, redirectUri, resource }, keyId);
      return code.ok ? ok(locationOf(request, { code: code.value }, publicUrl())) : code;
    },

    async redeem(form, caller) {
      const asked = tokenRequestOf(form);
      if (!asked.ok) return asked;
      const client = await redirectsOf(asked.value.clientId);
      if (!client.ok || client.value === null) return client.ok ? err('invalid_client') : client;
      const opened = await codes.open(asked.value.code, caller);
      if (!opened.ok || opened.value === null) return opened.ok ? err('invalid_grant') : opened;
      if ('takenFor' in opened.value) return refusedAgain(opened.value.takenFor, caller);
      const { content } = opened.value;
      const wrong = misfit(asked.value, content, audience, sha256);
      if (wrong !== null) return err(wrong);
      const { key, redirectUri } = content;
      const resource = serverOf(content, audience);
      const verified = await look(key, { ...caller, resources: [resource] });
      if (!verified.ok) return verified.error.code === 'invalid_api_key' ? err('invalid_grant') : verified;
      const { keyId, subject: userId } = verified.value;
      const host = hostOf(redirectUri);
      const hash = sha256(asked.value.code, 'hex');
      const attempt = random(ATTEMPT_BYTES).toHex();
      const fingerprint = fingerprintOf(hashKey(sha256, key));
      const taken = await store.take({ hash, attempt, keyId, fingerprint }, originOf('oauth', caller, host));
      if (!taken.ok) return taken;
      if (!taken.value) return refusedAgain(keyId, caller);
      const { requestId } = caller;
      log.info('API key handed to a client', { requestId, keyId, userId, host, resource });
      return ok(tokenOf(key, verified.value));
    },
  };
}
