// The grant type `token-exchange` (RFC 8693): gives a key with the scope `delegate` a child with fewer rights, which
// ends with it. making.ts decides.

import { parameter, type Refusal, refused } from '../../api/oauth.ts';
import { accessToken, type Redeem } from '../../api/token.ts';
import { ok, type Result } from '../../ground/result.ts';
import { splitScopes } from '../../ground/text.ts';
import type { ReadKeyRequest } from '../../keys/minting.ts';
import { type ChildRequest, createMakeChild, type MakeChildOptions } from './making.ts';

const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';

const EXPIRES_IN_S = { min: 60, max: 86_400, default: 3600 };

export interface ExchangeGrantOptions extends MakeChildOptions {
  /** Parses a name as create_api_key does. */
  readonly readKeyRequest: ReadKeyRequest;
}

export function createExchangeGrant(options: ExchangeGrantOptions): Redeem {
  const { readKeyRequest } = options;
  const makeChild = createMakeChild(options);
  return async (form, caller) => {
    const asked = requestIn(form, readKeyRequest);
    if (!asked.ok) return asked;
    const { subjectToken, child } = asked.value;
    const made = await makeChild(subjectToken, child, caller);
    if (!made.ok) return made;
    const { key, record } = made.value;
    return ok({
      ...accessToken(key, record, record.createdAtMs),
      issued_token_type: ACCESS_TOKEN,
      key_id: record.id,
    });
  };
}

/** The refused parameters: the child itself acts, and `resource` says where it is good. */
const NOT_TAKEN = ['actor_token', 'actor_token_type', 'audience'];

/** Reads the request (RFC 8693 §2.1). */
function requestIn(
  form: URLSearchParams,
  readKeyRequest: ReadKeyRequest,
): Result<{ readonly subjectToken: string; readonly child: ChildRequest }, Refusal> {
  const get = (name: string) => parameter(form, name);
  const subjectToken = get('subject_token');
  if (subjectToken === null || get('subject_token_type') !== ACCESS_TOKEN) {
    return refused('invalid_request', 'no subject_token, or another subject_token_type than access_token');
  }
  if ((get('requested_token_type') ?? ACCESS_TOKEN) !== ACCESS_TOKEN) {
    return refused('invalid_request', 'another requested_token_type than access_token');
  }
  const notTaken = NOT_TAKEN.find((name) => get(name) !== null);
  if (notTaken !== undefined) return refused('invalid_request', `the field ${notTaken}`);
  const livesS = secondsIn(get('expires_in'));
  const name = get('client_name') ?? undefined;
  const isName = name === undefined || readKeyRequest({ name, scopes: [] }).ok;
  if (livesS === null || !isName) return refused('invalid_request', 'an expires_in or client_name that is not valid');
  const scopes = [...new Set(splitScopes(get('scope') ?? ''))];
  return ok({
    subjectToken,
    child: { scopes, resource: get('resource') ?? undefined, livesMs: livesS * 1000, name },
  });
}

/** Parses the seconds. Returns the default if none are given, null if they are invalid. */
function secondsIn(given: string | null): number | null {
  if (given === null) return EXPIRES_IN_S.default;
  const seconds = /^\d{1,6}$/.test(given) ? Number(given) : Number.NaN;
  return seconds >= EXPIRES_IN_S.min && seconds <= EXPIRES_IN_S.max ? seconds : null;
}
