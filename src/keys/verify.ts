// Verifies a presented key: form, hash, record (cached while that may be trusted), refusal, audience, last use.

import { mergedMetadata } from '../ground/metadata.ts';
import type { Problem } from '../ground/problem.ts';
import { type Awaitable, chain, type Result } from '../ground/result.ts';
import type { Sha256 } from '../ground/runtime.ts';
import type { Holder } from '../uses/holder.ts';
import { redactFrom } from '../watch/redact.ts';
import type { Caller, Workload } from './actor.ts';
import type { Audience } from './audience.ts';
import type { ChangeParts } from './changes.ts';
import { type KnownKey, KnownKeys, type KnownKeysOptions } from './known-keys.ts';
import { earlier, endOf, fingerprintOf, hashKey, isKeyShaped, mayBeJwt, refusalAt } from './record.ts';
import { createUseFirst } from './rotating.ts';

/** Who is behind a verified key: what tools see as `auth`. */
export type KeyIdentity = Readonly<ReturnType<typeof identityOf>>;

/** Returns the id of the key that uses of this one count for. */
export const countedKeyId = ({ keyId, parentId }: KeyIdentity): string => parentId ?? keyId;

/** The rule that lets a token of another issuer in. */
export interface RuleOfToken {
  readonly id: string;
  /** The hash by which its key is found. */
  readonly hash: string;
  /** The first millisecond at which the token is no longer good. */
  readonly endsAtMs: number;
  readonly workload: Workload;
}

/** Such a rule, as it was found. */
export interface FoundRule {
  readonly rule: RuleOfToken;
  /** When that was known (monotonic); infinity: it is not in question. */
  readonly atMs: number;
}

/** Rules that let tokens of other issuers in as keys. */
export interface Rules {
  /** Finds the rule that lets a token in; null: it is nobody's key. */
  find(token: string, caller: Caller): Awaitable<Result<FoundRule | null, Problem>>;
  /** Returns whether a token is to be looked at as a workload's, and not as a user's. */
  isOfRule(token: string): Awaitable<boolean>;
}

/** A verified key, and what that is based on. */
export interface VerifiedKey {
  readonly ok: true;
  readonly value: KeyIdentity;
  /** Monotonic. Later changes were not considered. */
  readonly verifiedAtMs: number;
  readonly key: KnownKey;
  readonly holder: Holder;
  /** The earliest known end of the key, the secret or token, the parent and its secret; null: none ends. */
  readonly endsAtMs: number | null;
  /** The rule that let a token in; null: a secret was presented. */
  readonly rule: RuleOfToken | null;
}

export type Verified = VerifiedKey | { readonly ok: false; readonly error: Problem };

/**
 * Why a key is verified. `use`: for a call; notes its last use. `revalidate`: the same call again, before its success is
 * sent. `paste`: a person gave the key to a page; noted too. `inspect`: notes nothing. The last two complete no rotation.
 */
type Purpose = 'use' | 'revalidate' | 'paste' | 'inspect';

interface Presented {
  readonly token: string;
  /** Whether it is a secret of another form. */
  readonly isForeign: boolean;
  readonly keyHash: string;
  readonly caller: Caller;
  readonly purpose: Purpose;
  /** The rule that let a token in; null: a secret was presented. */
  readonly byRule: FoundRule | null;
}

export type Verifier = ReturnType<typeof createVerifier>;

interface VerifierOptions extends KnownKeysOptions, ChangeParts {
  /** Undefined: there are none. */
  readonly rules?: Rules | undefined;
  readonly audience: Audience;
  readonly sha256: Sha256;
}

export function createVerifier(options: VerifierOptions) {
  const { feed, clock, sha256, rules } = options;
  const known = new KnownKeys(options);
  const useFirst = createUseFirst(options, known);
  const evaluate = createEvaluate(options);

  function decide(token: string, caller: Caller, purpose: Purpose): Awaitable<Verified> {
    if (isKeyShaped(token)) return decideOnSecret(token, 'own', caller, purpose);
    if (mayBeJwt(token)) return decideOnToken(token, caller, purpose);
    const decideIf = (isForeign: boolean) =>
      isForeign ? decideOnSecret(token, 'foreign', caller, purpose) : MALFORMED;
    return chain(feed.mayBeForeign(token), decideIf);
  }

  function decideOnSecret(token: string, form: 'own' | 'foreign', caller: Caller, purpose: Purpose) {
    const keyHash = hashKey(sha256, token);
    return decideCurrent({ token, isForeign: form === 'foreign', keyHash, caller, purpose, byRule: null });
  }

  function decideOnToken(token: string, caller: Caller, purpose: Purpose): Awaitable<Verified> {
    if (purpose === 'paste' || rules === undefined) return MALFORMED;
    return chain(rules.find(token, caller), (found) => {
      if (!found.ok) return found;
      return found.value === null ? MALFORMED : decideOnRule(token, found.value, caller, purpose);
    });
  }

  function decideOnRule(token: string, byRule: FoundRule, caller: Caller, purpose: Purpose) {
    return decideCurrent({ token, isForeign: false, keyHash: byRule.rule.hash, caller, purpose, byRule });
  }

  function decideCurrent(presented: Presented): Awaitable<Verified> {
    const nowMs = clock.monotonicMs();
    if (feed.isCurrentForUse(nowMs)) return decideNow(presented, nowMs);
    return feed.ensureFresh().then(() => decideNow(presented, clock.monotonicMs()));
  }

  function decideNow(presented: Presented, nowMs: number): Awaitable<Verified> {
    const { keyHash, caller, byRule } = presented;
    const verifiedAtMs = byRule === null ? feed.polledAtMs : Math.min(byRule.atMs, feed.polledAtMs);
    const recalled = known.recall(keyHash, nowMs);
    if (recalled !== undefined) return decideOn(recalled, presented, verifiedAtMs);
    return known.read(keyHash, caller).then((read) => (read.ok ? decideOn(read.value, presented, verifiedAtMs) : read));
  }

  function decideOn(key: KnownKey | null, presented: Presented, verifiedAtMs: number): Awaitable<Verified> {
    if (key === null || !isPresented(key, presented)) return UNKNOWN;
    if (presented.isForeign) redactFrom(presented.token);
    if (isFirstUse(key, presented)) return decideFirstUse(key, presented);
    const evaluated = evaluate(key, presented, verifiedAtMs);
    if (!evaluated.ok) known.dropEnded(key);
    return evaluated;
  }

  const isFirstUse = (key: KnownKey, { caller, purpose }: Presented): boolean =>
    key.presented === 'next' &&
    known.isUsable(key) &&
    options.audience.admits(key.resource, caller) &&
    (purpose === 'use' || purpose === 'revalidate');

  async function decideFirstUse(key: KnownKey, presented: Presented): Promise<Verified> {
    const { caller } = presented;
    if (await caller.hasLeft?.()) return refusal({ reason: 'client has left', ...evidenceOf(key, null) });
    const { found, polledAtMs } = await useFirst(key, caller);
    return found === null ? UNKNOWN : evaluate(found, presented, polledAtMs);
  }

  return {
    /**
     * Decides on a presented key, and notes its use. While the feed is current, a cached key costs no read and no write,
     * except that the first use of a next secret is durably written first. Asks for the caller's address only then, and on
     * a read.
     */
    verify: (token: string, caller: Caller) => decide(token, caller, 'use'),
    /** Revalidates a key whose use was already noted, or the rule of a token: a token that ends meanwhile was good. */
    revalidate: (token: string, caller: Caller, rule: RuleOfToken | null) =>
      rule === null
        ? decide(token, caller, 'revalidate')
        : decideOnRule(token, { rule, atMs: Number.POSITIVE_INFINITY }, caller, 'revalidate'),
    /** Verifies a key that somebody pasted into a page, and notes its use. Completes no rotation. */
    verifyPasted: (token: string, caller: Caller) => decide(token, caller, 'paste'),
    /** Inspects a key: decides like `verifyPasted`, but notes no use. */
    inspect: (token: string, caller: Caller) => decide(token, caller, 'inspect'),
    known,
  };
}

/** Returns whether the key was found by what was presented: a secret of its form, a secret of another form, or a rule. */
const isPresented = (key: KnownKey, { isForeign, keyHash, byRule }: Presented): boolean =>
  isForeign ? key.foreignHash === keyHash : (key.presented === 'rule') === (byRule !== null);

/** Creates the function that returns who is behind a key, or why it is refused, and notes a use. */
const createEvaluate =
  ({ usage, audience, clock }: VerifierOptions) =>
  (key: KnownKey, presented: Presented, verifiedAtMs: number): Verified => {
    const { caller, purpose, byRule } = presented;
    const rule = byRule?.rule ?? null;
    const nowMs = clock.nowMs();
    const { holder } = key;
    const reason = refusalAt(key, nowMs) ?? (audience.admits(key.resource, caller) ? null : 'other resource');
    if (reason !== null || holder === null) {
      return refusal({ reason: reason ?? 'parent ended', ...evidenceOf(key, rule) });
    }
    if (purpose === 'use' || purpose === 'paste') usage.note(holder, nowMs);
    const endsAtMs = earlier(endOf(key), rule?.endsAtMs ?? null);
    const value = identityOf(key, presented, endsAtMs);
    return { ok: true, value, verifiedAtMs, key, rule, holder, endsAtMs };
  };

const identityOf = (key: KnownKey, { token, byRule }: Presented, endsAtMs: number | null) => ({
  subject: key.userId,
  keyId: key.id,
  keyName: key.name,
  scopes: key.scopes,
  createdAtMs: key.createdAtMs,
  /** When the key expires; null: never. */
  expiresAtMs: key.parent === null && byRule === null ? key.expiresAtMs : endsAtMs,
  /** The one server that the key is good for; null: any. */
  resource: key.resource,
  /** The operator's data on the owner, overridden by the key's own; null: none. */
  metadata: mergedMetadata(key.ownerSettings?.metadata ?? null, key.metadata),
  /** The parent key; null: it has none. Limits, quota and uses are the parent's. */
  parentId: key.parent?.id ?? null,
  /** Whose token a rule let in as this key; null: a secret was presented. */
  workload: byRule?.rule.workload ?? null,
  token,
});

/** Returns which key was refused, for the log. */
const evidenceOf = ({ id, name, userId, keyHash, parent }: KnownKey, rule: RuleOfToken | null) => ({
  keyId: id,
  keyName: name,
  userId,
  fingerprint: fingerprintOf(keyHash),
  ...(parent && { parentId: parent.id }),
  ...(rule && { rule: rule.id, ...rule.workload }),
});

const refusal = (evidence: Omit<Extract<Problem, { code: 'invalid_api_key' }>, 'code' | 'sent'>): Verified => ({
  ok: false,
  error: { code: 'invalid_api_key', ...evidence },
});

const MALFORMED = refusal({ reason: 'malformed' });
const UNKNOWN = refusal({ reason: 'unknown' });
