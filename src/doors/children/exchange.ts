// The grant types of /token that make a child: `token-exchange` (RFC 8693) of a key with the scope `delegate`, or of a
// workload's token that a rule lets in; `jwt-bearer` (RFC 7523) of such a token. The child has fewer rights, and ends with
// what was presented. making.ts decides.

import { parameter, type Refusal, refused } from '../../api/oauth.ts';
import { accessToken, type Redeem } from '../../api/token.ts';
import { ok, type Result } from '../../ground/result.ts';
import { splitScopes } from '../../ground/text.ts';
import type { Caller } from '../../keys/actor.ts';
import type { ReadKeyRequest } from '../../keys/minting.ts';
import { isJwtShaped } from '../../keys/record.ts';
import { type ChildRequest, createMakeChild, type MakeChildOptions } from './making.ts';

const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';

/** The refused parameters: the child itself acts, and `resource` says where it is good. */
const NOT_TAKEN = ['actor_token', 'actor_token_type', 'audience'];

const EXPIRES_IN_S = { min: 60, max: 86_400, default: 3600 };

/** Types of tokens of other issuers, which a rule lets in. */
const JWT_TYPES: readonly (string | null)[] = [
  'urn:ietf:params:oauth:token-type:jwt',
  'urn:ietf:params:oauth:token-type:id_token',
];

export interface GrantOptions extends MakeChildOptions {
  readonly readKeyRequest: ReadKeyRequest;
}

/** What a grant is based on: a key, or a token of another issuer. */
interface Presented {
  readonly token: string;
  readonly isJwt: boolean;
}

export function createGrants(options: GrantOptions) {
  const { readKeyRequest } = options;
  const makeChild = createMakeChild(options);

  /** Makes a child of what was presented, with the fields of the form that both grant types have. */
  async function make(
    { token, isJwt }: Presented,
    form: URLSearchParams,
    scopes: ChildRequest['scopes'],
    caller: Caller,
  ) {
    if ((parameter(form, 'requested_token_type') ?? ACCESS_TOKEN) !== ACCESS_TOKEN) {
      return refused('invalid_request', 'another requested_token_type than access_token');
    }
    const notTaken = NOT_TAKEN.find((name) => parameter(form, name) !== null);
    if (notTaken !== undefined) return refused('invalid_request', `the field ${notTaken}`);
    const livesS = secondsIn(parameter(form, 'expires_in'));
    const name = parameter(form, 'client_name') ?? undefined;
    const isName = name === undefined || readKeyRequest({ name, scopes: [] }).ok;
    if (livesS === null || !isName) return refused('invalid_request', 'an expires_in or client_name that is not valid');
    if (isJwtShaped(token) !== isJwt) return refused('invalid_grant', 'a token of another type than the form says');
    const resource = parameter(form, 'resource') ?? undefined;
    const made = await makeChild(token, { scopes, resource, livesMs: livesS * 1000, name }, caller);
    if (!made.ok) return made;
    const { key, record } = made.value;
    return ok({ ...accessToken(key, record, record.createdAtMs), key_id: record.id });
  }

  const exchange: Redeem = async (form, caller) => {
    const presented = subjectTokenIn(form);
    if (!presented.ok) return presented;
    const scopes = [...new Set(splitScopes(parameter(form, 'scope') ?? ''))];
    const made = await make(presented.value, form, () => scopes, caller);
    return made.ok ? ok({ ...made.value, issued_token_type: ACCESS_TOKEN }) : made;
  };

  /** Is for programs that want a token response; others send their token itself. */
  const assertion: Redeem = async (form, caller) => {
    const token = parameter(form, 'assertion');
    if (token === null) return refused('invalid_request', 'no assertion');
    // Clients ask for all scopes that they read in the metadata, so what isn't held is left out.
    const asked = form.get('scope');
    const chosen = asked === null ? null : new Set(splitScopes(asked));
    const scopes = (held: readonly string[]) => held.filter((scope) => chosen?.has(scope) ?? true);
    return make({ token, isJwt: true }, form, scopes, caller);
  };

  return { exchange, assertion };
}

/** Reads what is exchanged (RFC 8693 §2.1): a key, or a token of another issuer. */
function subjectTokenIn(form: URLSearchParams): Result<Presented, Refusal> {
  const [token, type] = [parameter(form, 'subject_token'), parameter(form, 'subject_token_type')];
  const isJwt = JWT_TYPES.includes(type);
  if (token === null || !(isJwt || type === ACCESS_TOKEN)) {
    return refused('invalid_request', 'no subject_token, or a subject_token_type that is not exchanged');
  }
  return ok({ token, isJwt });
}

/** Parses the seconds. Returns the default if none are given, null if they are invalid. */
function secondsIn(given: string | null): number | null {
  if (given === null) return EXPIRES_IN_S.default;
  const seconds = /^\d{1,6}$/.test(given) ? Number(given) : Number.NaN;
  return seconds >= EXPIRES_IN_S.min && seconds <= EXPIRES_IN_S.max ? seconds : null;
}
