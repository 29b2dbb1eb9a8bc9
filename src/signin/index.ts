// Lets OAuth clients use a key: a person pastes it into a page of this server, and the client's access token is that
// key. Signs, seals, verifies, and writes the trail; requests.ts decides. No HTTP. Nothing is stored of clients: the id
// of each holds its redirect URIs under a MAC.

import { LIMITS } from '../ground/limits/index.ts';
import { createTokenBuckets } from '../ground/limits/rates.ts';
import type { Problem } from '../ground/problem.ts';
import type { ConnectConfig } from '../ground/redirects.ts';
import { err, ok, type Result } from '../ground/result.ts';
import { createSignedText } from '../ground/signed-text.ts';
import { type Actor, type Caller, type OriginOf, personOf } from '../keys/actor.ts';
import type { KeyOrder, Minting } from '../keys/minting.ts';
import { type Audience, fingerprintOf, hashKey } from '../keys/record.ts';
import type { KeyIdentity, Verifier } from '../keys/verify.ts';
import type { Log } from '../watch/log.ts';
import { type CodeContent, type CodesOptions, createCodes } from './codes.ts';
import { type AccessToken, accessToken, createMakeKey, type MakingOptions, makeAttempt } from './making.ts';
import {
  type AuthorizationRequest,
  type Decision,
  decide,
  hostOf,
  locationOf,
  misfit,
  type NewKey,
  parameter,
  type RegistrationError,
  registrationOf,
  serverOf,
  type TokenError,
  tokenRequestOf,
} from './requests.ts';

export interface ConnectOptions extends CodesOptions, MakingOptions {
  readonly config: ConnectConfig;
  readonly publicUrl: string;
  /** Signs the ids of clients. */
  readonly readSecret: () => Promise<string>;
  /** Which database it is: another one has another secret. */
  readonly databaseId: () => string;
  readonly look: Verifier['look'];
  readonly keys: Pick<Minting, 'order' | 'mint'>;
  readonly originOf: OriginOf;
  readonly audience: Audience;
  readonly log: Log;
}

export interface Connect {
  readonly audience: Audience;
  register(metadata: unknown): Promise<Result<object, RegistrationError>>;
  /** What the parameters of /authorize ask for. */
  decide(parameters: URLSearchParams): Promise<Decision>;
  /** Where the person who pasted a good key is sent, with a code for it. */
  grant(
    request: AuthorizationRequest,
    key: string,
    identity: KeyIdentity,
    caller: Caller,
  ): Promise<Result<string, Problem>>;
  /** Where the person who decided on a key is sent, with a code for it; the key is made when that is redeemed. */
  order(request: AuthorizationRequest, actor: Actor, input: NewKey): Promise<Result<string, Problem>>;
  /** The token for a form sent to /token. */
  redeem(form: URLSearchParams, caller: Caller): Promise<Result<AccessToken, TokenError | Problem>>;
}

type Handed = Result<
  Pick<KeyIdentity, 'keyId' | 'scopes' | 'expiresAtMs'> & { key: string; userId: string },
  TokenError | Problem
>;

export function createConnect(options: ConnectOptions): Connect {
  const { config, publicUrl, store, keys, look, originOf, audience, clock, random, sha256, log } = options;
  const signedText = createSignedText({ ...options, use: 'client_id' });
  const codes = createCodes(options);
  const makeKey = createMakeKey(options);
  const handOvers = createTokenBuckets(LIMITS.handOvers, clock);

  /** Null if this server did not register the client. */
  async function redirectsOf(clientId: string): Promise<readonly string[] | null> {
    const text = await signedText.read(clientId);
    return text === null ? null : (JSON.parse(text) as readonly string[]); // signed
  }

  /** Somebody else may have the code too. */
  function refusedAgain(keyId: string, { requestId }: Caller): Result<never, TokenError> {
    log.warnThrottled('code of a client refused', keyId, { requestId, keyId, reason: 'redeemed before' });
    return err('invalid_grant');
  }

  async function sealed(
    { clientId, redirectUri, challenge, resource, ...request }: AuthorizationRequest,
    handsOut: CodeContent['handsOut'],
    whose: string,
  ): Promise<Result<string, Problem>> {
    const client = sha256(clientId, 'base64url');
    const code = await codes.seal({ handsOut, client, challenge, redirectUri, resource }, whose);
    return code.ok ? ok(locationOf({ ...request, redirectUri }, { code: code.value }, publicUrl)) : code;
  }

  /** A key that was pasted. */
  async function handOver(key: string, hash: string, host: string, caller: Caller): Promise<Handed> {
    const verified = await look(key, caller);
    if (!verified.ok) return verified.error.code === 'invalid_api_key' ? err('invalid_grant') : verified;
    const { keyId, subject: userId, scopes, expiresAtMs } = verified.value;
    const fingerprint = fingerprintOf(hashKey(sha256, key));
    const taking = { hash, attempt: makeAttempt(random), keyId, fingerprint };
    const taken = await store.take(taking, originOf('oauth', caller, host));
    return taken ? ok({ key, keyId, userId, scopes, expiresAtMs }) : refusedAgain(keyId, caller);
  }

  /** A key that a person has decided on. */
  async function handNew(order: KeyOrder, hash: string, host: string, caller: Caller): Promise<Handed> {
    const made = await makeKey(order, hash, 'oauth', originOf('oauth', caller, host), caller);
    if (!made.ok) return made;
    const { key, record } = made.value;
    const { id: keyId, userId, scopes, expiresAtMs } = record;
    return ok({ key, keyId, userId, scopes, expiresAtMs });
  }

  return {
    audience,

    async register(metadata) {
      const registration = registrationOf(metadata, config);
      if (!registration.ok) return registration;
      const clientId = await signedText.sign(JSON.stringify(registration.value.redirect_uris));
      return ok({ client_id: clientId, ...registration.value });
    },

    async decide(parameters) {
      const redirectUris = await redirectsOf(parameter(parameters, 'client_id') ?? '');
      return decide(parameters, redirectUris, config.redirects, audience);
    },

    async grant(request, key, { keyId, subject: userId }, { requestId }) {
      const waitS = handOvers.take(keyId);
      if (waitS > 0) {
        log.warnThrottled('Rate limit exceeded', `connect ${keyId}`, { requestId, keyId, userId });
        return err({ code: 'rate_limited', retryAfterS: Math.ceil(waitS) });
      }
      return sealed(request, { key }, keyId);
    },

    async order(request, actor, input) {
      const ordered = keys.order(actor, { ...input, resource: serverOf(request, audience) });
      return ordered.ok ? sealed(request, { order: ordered.value }, personOf(actor)) : ordered;
    },

    async redeem(form, caller) {
      const asked = tokenRequestOf(form);
      if (!asked.ok) return asked;
      if ((await redirectsOf(asked.value.clientId)) === null) return err('invalid_client');
      const opened = await codes.open(asked.value.code, caller);
      if (!opened.ok || opened.value === null) return opened.ok ? err('invalid_grant') : opened;
      if ('takenFor' in opened.value) return refusedAgain(opened.value.takenFor, caller);
      const { content } = opened.value;
      const wrong = misfit(asked.value, content, audience, sha256);
      if (wrong !== null) return err(wrong);
      const { handsOut, redirectUri } = content;
      const resource = serverOf(content, audience);
      const host = hostOf(redirectUri);
      const hash = sha256(asked.value.code, 'hex');
      const handed =
        'key' in handsOut
          ? await handOver(handsOut.key, hash, host, { ...caller, resources: [resource] })
          : await handNew(handsOut.order, hash, host, caller);
      if (!handed.ok) return handed;
      const { key, keyId, userId } = handed.value;
      log.info('API key handed to a client', { requestId: caller.requestId, keyId, userId, host, resource });
      return ok(accessToken(key, handed.value, clock.nowMs()));
    },
  };
}
