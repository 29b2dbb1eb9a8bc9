// The grant types of /token that make a child: `token-exchange` (RFC 8693) of a key with the scope `delegate`, or of a
// workload's token that a rule lets in; `jwt-bearer` (RFC 7523) of such a token. The child has fewer rights, and ends with
// what was presented. child.ts says what it may do.

import { parameter, type Refusal, refused } from '../../api/oauth.ts';
import { accessToken, type Redeem } from '../../api/token.ts';
import { LIMITS } from '../../ground/limits/index.ts';
import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import type { Clock, RandomBytes, Sha256 } from '../../ground/runtime.ts';
import { firstParts } from '../../ground/text.ts';
import { type Caller, callerFor, createBudget, type OriginOf } from '../../keys/actor.ts';
import type { Audience } from '../../keys/audience.ts';
import type { ReadKeyRequest } from '../../keys/minting.ts';
import { earlier, fingerprintOf, isJwtShaped, mintId, mintKey } from '../../keys/record.ts';
import type { ChildRecord } from '../../keys/store.ts';
import type { KeyIdentity, Verifier } from '../../keys/verify.ts';
import type { Database } from '../../store/database.ts';
import type { Log, LogFields } from '../../watch/log.ts';
import { excerptOf } from '../../watch/redact.ts';
import { DELEGATE } from './child.ts';
import { createChildStore, type Full } from './store.ts';

const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';

/** The refused parameters: the child itself acts, and `resource` says where it is good. */
const NOT_TAKEN = ['actor_token', 'actor_token_type', 'audience'];

const EXPIRES_IN_S = { min: 60, max: 86_400, default: 3600 };

/** Types of tokens of other issuers, which a rule lets in. */
const JWT_TYPES: readonly (string | null)[] = [
  'urn:ietf:params:oauth:token-type:jwt',
  'urn:ietf:params:oauth:token-type:id_token',
];

export interface GrantOptions {
  readonly db: Database;
  readonly verifier: Verifier;
  readonly audience: Audience;
  readonly ageClock: Clock;
  readonly random: RandomBytes;
  readonly sha256: Sha256;
  readonly log: Log;
  readonly originOf: OriginOf;
  readonly config: { readonly keyPrefix: string; readonly production: boolean };
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
    return makeChild(token, { scopes, resource, livesMs: livesS * 1000, name }, caller);
  }

  const exchange: Redeem = async (form, caller) => {
    const presented = subjectTokenIn(form);
    if (!presented.ok) return presented;
    const asked = parameter(form, 'scope') ?? '';
    // Of more than it holds, at least one isn't held.
    const scopes = (held: readonly string[]) => firstParts(asked, held.length + 1);
    const made = await make(presented.value, form, scopes, caller);
    return made.ok ? ok({ ...made.value, issued_token_type: ACCESS_TOKEN }) : made;
  };

  /** Is for programs that want a token response; others send their token itself. */
  const assertion: Redeem = async (form, caller) => {
    const token = parameter(form, 'assertion');
    if (token === null) return refused('invalid_request', 'no assertion');
    // Clients ask for all scopes that they read in the metadata, so what isn't held is left out.
    const asked = form.get('scope');
    function scopes(held: readonly string[]): readonly string[] {
      if (asked === null) return held;
      const isHeld = new Set(held); // or a hundred of them are compared with each of 180,000
      const chosen = new Set(firstParts(asked, held.length, (scope) => isHeld.has(scope)));
      return held.filter((scope) => chosen.has(scope));
    }
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

/** What is asked of a child. */
interface ChildRequest {
  /** Returns the scopes, of those that the parent may hand on. */
  readonly scopes: (held: readonly string[]) => readonly string[];
  /** A URL; undefined: as the parent's. */
  readonly resource: string | undefined;
  /** Cut to what is left of the parent's life. */
  readonly livesMs: number;
  /** Undefined: the parent's, or of a workload its subject. */
  readonly name: string | undefined;
}

/** Creates the function that makes a child for whoever presents its parent's secret. */
function createMakeChild(options: GrantOptions) {
  const { db, verifier, audience, ageClock: clock, random, sha256, log, originOf, config } = options;
  const childStore = createChildStore(db);
  const keysBudget = createBudget('exchanges', [LIMITS.exchangesOfKey, LIMITS.exchangesOfKeyAndDay], clock, log);
  const ownersBudget = createBudget('user', [LIMITS.exchanges, LIMITS.exchangesOfDay], clock, log);

  /** Returns the server that the child is bound to; null: none; undefined: keys can't be bound to that one. */
  function resourceFor(
    { resource: own }: KeyIdentity,
    asked: string | undefined,
    { publicUrl }: Caller,
  ): string | null | undefined {
    if (asked === undefined) return own;
    const name = audience.serversFor(publicUrl).nameOf(asked);
    return name !== null && (own === null || own === name) ? name : undefined;
  }

  return async (parentKey: string, asked: ChildRequest, caller: Caller) => {
    const { requestId, traceId } = caller;
    const verified = await verifier.verify(parentKey, callerFor(caller, 'any'));
    if (!verified.ok) return verified;
    const { value: parent, endsAtMs, rule } = verified;
    const { subject: userId, keyId: parentId } = parent;
    const about = { keyId: parentId, userId };
    const scopes = asked.scopes(parent.scopes.filter((scope) => scope !== DELEGATE));
    const mayNot = handOnRefusal(parent, scopes, about);
    if (mayNot !== null) return mayNot;
    const resource = resourceFor(parent, asked.resource, caller);
    if (resource === undefined) {
      const reason = 'the key is bound to another resource, or OAUTH_RESOURCES does not list this one';
      return refused('invalid_target', reason, { ...about, resource: excerptOf(asked.resource ?? '') });
    }
    // The key's own budget first: one key that leaked leaves something to its owner's others.
    const ofKey = keysBudget.take(parentId, { requestId, traceId, ...about });
    const taken = ofKey.ok ? ownersBudget.take(userId, { requestId, traceId, userId }) : ofKey;
    if (!taken.ok) return taken;

    const { key, keyHash } = mintKey({ ...config, random, sha256 });
    const createdAtMs = clock.nowMs();
    const record: ChildRecord = {
      id: mintId(random),
      userId,
      keyHash,
      parentId,
      parentHash: verified.key.presentedHash,
      name: asked.name ?? nameOf(parent),
      scopes,
      resource,
      createdAtMs,
      expiresAtMs: earlier(createdAtMs + asked.livesMs, endsAtMs) ?? createdAtMs,
      endedAtMs: null,
    };
    const by = rule === null ? {} : { workload: { rule: rule.id, ...rule.workload } };
    const made = await childStore.insertChild(record, { ...originOf('exchange', caller), ...by });
    if (made === 'made') {
      const fingerprint = fingerprintOf(keyHash);
      log.info('API key created', { requestId, traceId, userId, keyId: record.id, parentId, fingerprint });
      return ok({ ...accessToken(key, record, createdAtMs), key_id: record.id });
    }
    ownersBudget.give(userId);
    if (made === 'ended')
      return refused('invalid_grant', `the key ended meanwhile, or lost the scope ${DELEGATE}`, about);
    log.warnThrottled('Rate limit exceeded', bucketOf(made, about), { requestId, traceId, ...about, of: made.of });
    const retryAfterS = Math.max(1, Math.ceil((made.freeAtMs - createdAtMs) / 1000));
    return err<Problem>({ code: 'rate_limited', retryAfterS });
  };
}

/** Returns the bucket that throttles the log's lines: all keys of an owner share his maximum. */
const bucketOf = ({ of }: Full, { keyId, userId }: { readonly keyId: string; readonly userId: string }): string =>
  of === 'owner' ? `children of owner ${userId}` : `children ${keyId}`;

const NAME_CHARS_MAX = 200;

/** Returns the name of a child that was given none: its parent's, or of a workload its subject. */
const nameOf = ({ keyName, workload }: KeyIdentity): string =>
  workload === null ? keyName : [...workload.subject].slice(0, NAME_CHARS_MAX).join('');

const SCOPES_LOGGED = 5;

/** Returns the refusal of a key that may not hand on the scopes; null: it may. */
function handOnRefusal(parent: KeyIdentity, scopes: readonly string[], about: LogFields) {
  if (parent.parentId !== null) return refused('invalid_grant', 'the key was made by another', about);
  if (parent.workload === null && !parent.scopes.includes(DELEGATE))
    return refused('invalid_grant', `the key lacks the scope ${DELEGATE}`, about);
  if (scopes.length === 0) return refused('invalid_scope', 'no scope was asked for', about);
  const notHeld = scopes.filter((scope) => scope === DELEGATE || !parent.scopes.includes(scope));
  if (notHeld.length === 0) return null;
  const shown = notHeld.slice(0, SCOPES_LOGGED).map((scope) => excerptOf(scope));
  return refused('invalid_scope', 'the key may not hand on these scopes', { ...about, scopes: shown });
}
