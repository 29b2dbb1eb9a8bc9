// Adds a rule for an operator, or says in one sentence why not. The inserting statement decides what other operators may
// change meanwhile; the form, the settings and the issuer are checked only here.

import { err, ok } from '../../ground/result.ts';
import type { Clock, RandomBytes, Sha256 } from '../../ground/runtime.ts';
import type { Origin } from '../../keys/actor.ts';
import { hasEnded, hashKey, type ListedKey, mintId } from '../../keys/record.ts';
import type { KeyReads } from '../../keys/store.ts';
import { discoverJwksUri } from '../../users/discovery.ts';
import { issuerOutageIn } from '../../users/verification-keys.ts';
import { type AskedRule, nameFault, type Rule } from './rule.ts';
import { type RulesOptions, ruleSettings } from './settings.ts';
import { createRuleStore, type KeySetSource, type StoredRule } from './store.ts';

interface AddingOptions extends RulesOptions {
  readonly findOwn: KeyReads['findOwn'];
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly sha256: Sha256;
  readonly origin: Origin;
  /** Tells the operator in a sentence what may be wrong. */
  readonly warn: (sentence: string) => void;
}

export interface RuleRequest extends AskedRule {
  /** Undefined: what the issuer has, of a new one the set that its metadata names. */
  readonly keySet: KeySetSource | undefined;
}

const SECRET_BYTES = 32;

/**
 * Returns the id of the rule, also of the same one that was there before, with the key's owner and the audiences of which the
 * platform must be asked for one. Its error is a sentence for the operator.
 */
export async function addRule(request: RuleRequest, options: AddingOptions) {
  const { findOwn, clock, random, sha256, origin, warn } = options;
  const store = createRuleStore(options.db);
  const settings = ruleSettings(options);
  const { keySet, ...asked } = request;
  const nowMs = clock.nowMs();
  const [key, rules] = await Promise.all([findOwn(null, asked.keyId), store.list(nowMs)]);
  const placed = { ...asked, resource: key?.resource ?? null };
  function added(id: string) {
    const missing = asked.scopes?.filter((scope) => !key?.scopes.includes(scope)) ?? [];
    if (missing.length > 0)
      warn(`the key lacks scopes that the rule names, so no token gets them: ${missing.join(' ')}`);
    return ok({ id, owner: key?.userId ?? null, audiences: settings.audiencesOf(placed) });
  }
  const same = rules.find((rule) => isSame(rule, asked));
  if (same !== undefined) {
    if (keySet !== undefined) {
      const fault = await issuerFault(request, rules, options);
      if (fault !== null) return err(fault);
      await store.setKeySet(same, keySet);
    }
    return added(same.id);
  }
  const refusal =
    keyRefusal(key, nowMs) ??
    nameFault(asked) ??
    settings.whyWithoutEffect(placed) ??
    (await issuerFault(request, rules, options));
  if (refusal !== null) return err(refusal);
  const rule = { ...asked, id: mintId(random), hash: hashKey(sha256, random(SECRET_BYTES).toHex()) };
  const notAdded = await store.add(rule, nowMs, keySet, origin);
  if (notAdded === null) return added(rule.id);
  // Somebody else may have added the same rule since the rules were read.
  const other = (await store.list(nowMs)).find((one) => isSame(one, asked));
  return other === undefined ? err(notAdded) : added(other.id);
}

function isSame(rule: Rule, asked: AskedRule): boolean {
  const textOf = ({ keyId, issuer, subject, audiences, claims, scopes }: AskedRule) =>
    JSON.stringify([keyId, issuer, subject, audiences, claims, scopes]);
  return textOf(rule) === textOf(asked);
}

/** Returns why a key may have no rules. One of a blocked owner may: it works again once he is unblocked. */
function keyRefusal(key: ListedKey | null, nowMs: number): string | null {
  if (key === null) return 'there is no key of this id (a child has no rules)';
  if (!key.active) return 'the key is revoked';
  return hasEnded(key.expiresAtMs, nowMs) ? 'the key is expired' : null;
}

/** Looks up the metadata if it names the key set, since a mistyped issuer would never be found out otherwise. */
async function issuerFault(
  { issuer, keySet }: RuleRequest,
  rules: readonly StoredRule[],
  { clock, warn }: AddingOptions,
): Promise<string | null> {
  const source = keySet === undefined ? rules.find((rule) => rule.issuer === issuer)?.keySet : keySet;
  if (source != null) return null;
  try {
    await discoverJwksUri(issuer, clock);
  } catch (error) {
    const { reason, otherIssuer } = issuerOutageIn(error);
    if (otherIssuer !== null) return `${reason}, not ${JSON.stringify(issuer)}`;
    warn(`the key set of ${issuer} can't be found now: ${reason}`);
  }
  return null;
}
