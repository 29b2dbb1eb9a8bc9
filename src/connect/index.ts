// Lets clients that speak only OAuth use a key: a person pastes it into a page of this server, and the client's access
// token is that key. What this adds to the decisions: signing, sealing, verifying, and the trail. No HTTP.

import type { ConnectConfig } from '../config/connect.ts';
import type { Caller, OriginOf } from '../keys/actor.ts';
import { hashKey } from '../keys/key-format.ts';
import { fingerprintOf } from '../keys/record.ts';
import type { KeyIdentity, Verifier } from '../keys/verify.ts';
import { err, ok, type Result } from '../lib/result.ts';
import type { Sha256 } from '../lib/runtime.ts';
import { joinScopes } from '../lib/scope.ts';
import { createSignedText } from '../lib/signed-text.ts';
import { LIMITS } from '../limits/index.ts';
import { createTokenBuckets } from '../limits/token-bucket.ts';
import type { Log } from '../log/log.ts';
import type { Problem, StoreUnavailable } from '../problem.ts';
import { createClientIds, type RegistrationError, registered, registrationOf } from './clients.ts';
import { type CodesOptions, createCodes } from './codes.ts';
import {
  type AuthorizationRequest,
  type Decision,
  decide,
  hostOf,
  locationOf,
  parameter,
  type SendBack,
} from './request.ts';
import { misfit, type TokenError, tokenRequestOf } from './token.ts';

export interface ConnectOptions extends CodesOptions {
  readonly config: ConnectConfig;
  readonly publicUrl: () => string;
  /** What the ids of clients are signed with. */
  readonly readSecret: () => Promise<Result<string, StoreUnavailable>>;
  readonly look: Verifier['look'];
  readonly originOf: OriginOf;
  readonly sha256: Sha256;
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
  /** The response to a registration. */
  register(metadata: unknown): Promise<Result<ReturnType<typeof registered>, RegistrationError | StoreUnavailable>>;
  /** What the parameters of /authorize ask for. */
  decide(parameters: URLSearchParams): Promise<Result<Decision, StoreUnavailable>>;
  /** Where a person is sent back to without a key. */
  sendBack(to: SendBack): string;
  /** Where a person who has pasted a good key is sent, with a code for it. */
  grant(request: AuthorizationRequest, key: string): Promise<Result<string, StoreUnavailable>>;
  /** The token for a form sent to /token. */
  redeem(form: URLSearchParams, caller: Caller): Promise<Result<AccessToken, TokenError | Problem>>;
}

const ATTEMPT_BYTES = 16;

export function createConnect(options: ConnectOptions): Connect {
  const { config, publicUrl, store, look, originOf, clock, random, sha256, log } = options;
  const clientIds = createClientIds(createSignedText({ ...options, use: 'client_id' }));
  const codes = createCodes(options);
  const handOvers = createTokenBuckets(LIMITS.handOvers, clock);

  /** With the issuer, so that a client knows which server it hears from (RFC 9207). */
  const back = (redirectUri: string, told: Readonly<Record<string, string | null>>) =>
    locationOf(redirectUri, { ...told, iss: publicUrl() });

  function tokenOf(key: string, { scopes, expiresAtMs }: KeyIdentity): AccessToken {
    const left = expiresAtMs === null ? null : Math.max(0, Math.floor((expiresAtMs - clock.nowMs()) / 1000));
    return {
      access_token: key,
      token_type: 'Bearer',
      scope: joinScopes(scopes),
      ...(left !== null && { expires_in: left }),
    };
  }

  return {
    async register(metadata) {
      const registration = registrationOf(metadata, config.redirects);
      if (!registration.ok) return registration;
      const clientId = await clientIds.issue(registration.value.redirectUris);
      return clientId.ok ? ok(registered(clientId.value, registration.value)) : clientId;
    },

    async decide(parameters) {
      const redirectUris = await clientIds.read(parameter(parameters, 'client_id') ?? '');
      if (!redirectUris.ok) return redirectUris;
      return ok(decide(parameters, redirectUris.value, { config, publicUrl: publicUrl() }));
    },

    sendBack: ({ redirectUri, state, error }) => back(redirectUri, { error, state }),

    async grant({ clientId, redirectUri, challenge, resource, state }, key) {
      const code = await codes.seal({ key, client: sha256(clientId, 'base64url'), challenge, redirectUri, resource });
      return code.ok ? ok(back(redirectUri, { code: code.value, state })) : code;
    },

    async redeem(form, caller) {
      const asked = tokenRequestOf(form);
      if (!asked.ok) return asked;
      const client = await clientIds.read(asked.value.clientId);
      if (!client.ok || client.value === null) return client.ok ? err('invalid_client') : client;
      const opened = await codes.open(asked.value.code);
      if (!opened.ok || opened.value === null) return opened.ok ? err('invalid_grant') : opened;
      const code = opened.value;
      const wrong = misfit(asked.value, code, { config, publicUrl: publicUrl(), sha256 });
      if (wrong !== null) return err(wrong);
      const { key, number, redirectUri, resource } = code;
      const verified = await look(key, caller);
      if (!verified.ok) return verified.error.code === 'invalid_api_key' ? err('invalid_grant') : verified;
      const { keyId, subject: userId } = verified.value;
      const { requestId } = caller;
      const waitS = handOvers.take(userId);
      if (waitS > 0) {
        log.warnThrottled('Rate limit exceeded', `connect ${userId}`, { requestId, keyId, userId });
        return err({ code: 'rate_limited', retryAfterS: Math.ceil(waitS) });
      }
      const attempt = random(ATTEMPT_BYTES).toHex();
      const fingerprint = fingerprintOf(hashKey(sha256, key));
      const host = hostOf(redirectUri);
      const redeemed = await store.redeem({ number, attempt, keyId, fingerprint }, originOf('oauth', caller, host));
      if (!redeemed.ok) return redeemed;
      if (!redeemed.value) {
        // Somebody else may have the code, too.
        log.warn('code of a client refused', { requestId, keyId, userId, host, reason: 'redeemed before' });
        return err('invalid_grant');
      }
      log.info('API key handed to a client', { requestId, keyId, userId, host, resource: resource ?? publicUrl() });
      return ok(tokenOf(key, verified.value));
    },
  };
}
