// The grant type `authorization_code` (RFC 6749 §4.1.3): exchanges a client's code for its key, once.

import { parameter, type Refusal, refused } from '../../api/oauth.ts';
import { accessToken, type Redeem } from '../../api/token.ts';
import { isUrl } from '../../config/client-ids.ts';
import { ok, type Result } from '../../ground/result.ts';
import type { Sha256 } from '../../ground/runtime.ts';
import { type Caller, callerFor, type Origin } from '../../keys/actor.ts';
import { shownServer, THIS_SERVER } from '../../keys/audience.ts';
import type { KeyOrder } from '../../keys/minting.ts';
import { fingerprintOf, hashKey } from '../../keys/record.ts';
import { excerptOf } from '../../watch/redact.ts';
import { hostOf } from './authorization-request.ts';
import type { Clients } from './clients.ts';
import { type CodeContent, type Codes, createMakeKey } from './codes.ts';
import type { SignInParts } from './options.ts';

export function createCodeGrant(clients: Clients, codes: Codes, options: SignInParts): Redeem {
  const { store, verifier, originOf, audience, clock, sha256, log } = options;
  const makeKey = createMakeKey(options);

  /** Refuses a code that was redeemed before, and logs it, because somebody else may have it. */
  function refusedAgain(keyId: string, { requestId }: Caller): Result<never, Refusal> {
    log.warnThrottled('code of a client refused', keyId, { requestId, keyId, reason: 'redeemed before' });
    return refused('invalid_grant', null);
  }

  /** Hands out a pasted key. */
  async function handOver(key: string, hash: string, to: Receiver) {
    const { caller, server } = to;
    const resources = server === THIS_SERVER ? undefined : [server];
    const verified = await verifier.inspect(key, callerFor(caller, resources));
    if (!verified.ok) return verified;
    const { keyId, subject: userId } = verified.value;
    const fingerprint = fingerprintOf(hashKey(sha256, key));
    const taken = await store.take(hash, keyId, fingerprint, handedTo(to), clock.nowMs());
    const token = accessToken(key, verified.value, clock.nowMs());
    return taken ? ok({ keyId, userId, token }) : refusedAgain(keyId, caller);
  }

  /** Creates and hands out the key that a person has decided on. */
  async function handNew(order: KeyOrder, hash: string, to: Receiver) {
    const made = await makeKey(order, hash, 'oauth', handedTo(to), to.caller);
    if (!made.ok) return made;
    const { key, record } = made.value;
    return ok({ keyId: record.id, userId: record.userId, token: accessToken(key, record, record.createdAtMs) });
  }

  /** Returns the origin for the event that a client got the key. */
  const handedTo = ({ caller, host, client }: Receiver): Origin => ({ ...originOf('oauth', caller, host), ...client });

  /** Returns the code's hash and content, if the code was made for this request. */
  async function open(asked: TokenRequest, caller: Caller) {
    if (!(await clients.mayBe(asked.clientId))) {
      return refused('invalid_client', 'neither registered here nor listed', { client: excerptOf(asked.clientId) });
    }
    const opened = await codes.open(asked.code, caller);
    if (!opened.ok) return opened;
    if (opened.value === null) return refused('invalid_grant', 'the code is unknown or has ended');
    if ('takenFor' in opened.value) return refusedAgain(opened.value.takenFor, caller);
    const { content } = opened.value;
    const mismatch = mismatchOf(asked, content, sha256);
    if (mismatch !== null) return refused('invalid_grant', mismatch, { host: hostOf(content.redirectUri) });
    const { resource } = asked;
    const isSame = resource === null || audience.serversFor(caller.publicUrl).nameOf(resource) === content.resource;
    return isSame ? ok(opened.value) : refused('invalid_target', 'the code is for another resource');
  }

  return async (form, caller) => {
    const asked = tokenRequestOf(form);
    if (!asked.ok) return asked;
    const opened = await open(asked.value, caller);
    if (!opened.ok) return opened;
    const { clientId } = asked.value;
    const { hash, content } = opened.value;
    const { handsOut, redirectUri, resource: server } = content;
    const client = isUrl(clientId) ? { client: clientId } : {};
    const host = hostOf(redirectUri);
    const to: Receiver = { caller, server, host, client };
    const handed = 'key' in handsOut ? await handOver(handsOut.key, hash, to) : await handNew(handsOut.order, hash, to);
    if (!handed.ok) return handed;
    const { keyId, userId, token } = handed.value;
    const resource = shownServer(server, audience.serversFor(caller.publicUrl).url);
    log.info('API key handed to a client', { requestId: caller.requestId, keyId, userId, host, resource, ...client });
    return ok(token);
  };
}

interface Receiver {
  readonly caller: Caller;
  /** The server that the key is for, by its stored name. */
  readonly server: string;
  readonly host: string;
  /** The client's id in the log, if it is a URL. */
  readonly client: { readonly client?: string };
}

/** A request that redeems a code (RFC 6749 §4.1.3, RFC 7636 §4.5, RFC 8707 §2.2). */
interface TokenRequest {
  readonly clientId: string;
  readonly code: string;
  readonly verifier: string;
  readonly redirectUri: string | null;
  readonly resource: string | null;
}

function tokenRequestOf(form: URLSearchParams): Result<TokenRequest, Refusal> {
  const get = (name: string) => parameter(form, name);
  const [clientId, code, verifier] = [get('client_id'), get('code'), get('code_verifier')];
  if (clientId === null || code === null || verifier === null) {
    return refused('invalid_request', 'no client_id, code or code_verifier');
  }
  return ok({ clientId, code, verifier, redirectUri: get('redirect_uri'), resource: get('resource') });
}

/** Matches a code verifier (RFC 7636 §4.1). */
const VERIFIER = /^[\w.~-]{43,128}$/;

/** Returns why the code isn't for this request; null: it was made for this client, verifier and redirect. */
function mismatchOf(asked: TokenRequest, code: CodeContent, sha256: Sha256): string | null {
  const { clientId, verifier, redirectUri } = asked;
  if (sha256(clientId, 'base64url') !== code.client) return 'the code is of another client';
  const fits = VERIFIER.test(verifier) && sha256(verifier, 'base64url') === code.challenge;
  if (!fits) return 'the code_verifier does not fit the code_challenge';
  return redirectUri === null || redirectUri === code.redirectUri ? null : 'another redirect_uri than at /authorize';
}
