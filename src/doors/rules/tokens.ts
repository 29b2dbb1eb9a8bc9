// Finds the rule that lets a token in, among all rules, which are read together and kept until one changes. A good token is
// remembered with the rules that have let it in, while its issuer's key set is the same. Nothing is remembered of refusals.

import * as errors from 'jose/errors';
import { singleFlights } from '../../ground/cache.ts';
import { RULES_CHANGED } from '../../ground/change-feed.ts';
import type { TokenBuckets } from '../../ground/limits/rates.ts';
import type { Problem, TokenRefusal } from '../../ground/problem.ts';
import { type Awaitable, chain, err, ok, type Result, StoreOutage } from '../../ground/result.ts';
import type { Clock, Sha256 } from '../../ground/runtime.ts';
import type { Caller } from '../../keys/actor.ts';
import type { Feed } from '../../keys/feed.ts';
import { sourceOf, tooMany } from '../../keys/unknown-keys.ts';
import type { FoundRule, RuleOfToken } from '../../keys/verify.ts';
import type { Verdict } from '../../users/signature.ts';
import { IssuerOutage, issuerOutageIn } from '../../users/verification-keys.ts';
import { createVerdicts, type Verdicts } from '../../users/verifier.ts';
import type { Log } from '../../watch/log.ts';
import { createKeySets } from './key-sets.ts';
import { fitsSubject } from './rule.ts';
import { type RulesOptions, ruleSettings } from './settings.ts';
import { createVerifyInTurn, NoPlace } from './signature-queue.ts';
import { createRuleStore, type RuleStore, type StoredRule } from './store.ts';
import { candidatesOf, EARLY_CHECKS, isFit, type ParsedToken, parseToken } from './token-checks.ts';

type Found = Result<FoundRule | null, Problem>;

export interface TokensOptions extends RulesOptions {
  readonly feed: Feed;
  /** The budgets of unknown keys. */
  readonly lookupBudgets: TokenBuckets;
  /** A clock that also counts while the machine sleeps. */
  readonly ageClock: Clock;
  readonly sha256: Sha256;
  readonly log: Log;
  readonly watch: { token(result: 'memory' | 'verified' | 'refused' | 'unavailable'): void };
}

export function createTokens(options: TokensOptions) {
  const { db, feed, lookupBudgets, ageClock: clock, sha256, log, watch } = options;
  const keySets = createKeySets({ clock, log });
  const ruleSets = createRuleSets(createRuleStore(db), feed, clock);
  const { users, audiencesOf } = ruleSettings(options);
  const verifyInTurn = createVerifyInTurn();

  async function check(token: string, tokenHash: string, caller: Caller): Promise<Found> {
    const { polledAtMs: atMs } = feed; // before the rules are read
    const parsed = parseToken(token);
    if (parsed === null) return ok(null);
    const set = await ruleSets.get();
    const candidates = candidatesOf(parsed, set.byIssuer, users);
    if (candidates === null) return ok(null);
    const checked = await checkOf(token, parsed, candidates, caller);
    watch.token(checked.ok ? 'verified' : checked.error.code === 'invalid_api_key' ? 'refused' : 'unavailable');
    if (!checked.ok) return checked;
    set.letIn.remember(tokenHash, checked.value);
    return ok({ rule: checked.value.value, atMs });
  }

  async function checkOf(
    token: string,
    parsed: ParsedToken,
    candidates: readonly StoredRule[],
    caller: Caller,
  ): Promise<Result<Verdict<RuleOfToken>, Problem>> {
    const { iss: issuer, sub: subject, exp } = parsed.payload as { iss: string; sub: string; exp: number };
    for (const refusalOf of Object.values(EARLY_CHECKS)) {
      const refusal = refusalOf(parsed, clock.nowMs());
      if (refusal !== null) return refused(refusal, { issuer });
    }
    const keys = keySets.of(candidates[0] as StoredRule); // there is one, and all of an issuer have the same
    const source = sourceOf(caller);
    const isWithinBudget = lookupBudgets.take(source) === 0;
    const signed = await verifyInTurn(token, keys, source, isWithinBudget).catch(outage);
    if (!signed.ok) return err(problemOf(signed.error, issuer, caller));
    const ofSubject = candidates.filter((rule) => fitsSubject(rule.subject, subject)); // few of a thousand
    const fitting = ofSubject.filter((rule) => isFit(rule, parsed, audiencesOf(rule)));
    const [rule] = fitting;
    if (rule === undefined) return refused('no rule', { issuer, subject, rules: candidates.length });
    if (fitting.length > 1) return refused('several rules', { issuer, subject, rules: fitting.map(({ id }) => id) });
    if (isWithinBudget) lookupBudgets.give(source, 1); // no sooner: anybody may have a signed token of a public issuer
    const endsAtMs = Math.round(exp * 1000); // `exp` may have a fraction (RFC 7519 §2, NumericDate)
    const value = { id: rule.id, hash: rule.hash, endsAtMs, workload: { issuer, subject } };
    return ok({ value, endsAtMs, by: signed.value.by });
  }

  function problemOf(error: unknown, issuer: string, caller: Caller): Problem {
    if (error instanceof IssuerOutage) return { code: 'auth_unavailable', reason: error.reason };
    if (error instanceof NoPlace) return tooMany(sourceOf(caller), caller, log);
    const isUnknown = error instanceof errors.JWKSNoMatchingKey;
    return { code: 'invalid_api_key', reason: isUnknown ? 'unknown kid' : 'signature', issuer };
  }

  function findNow(token: string, caller: Caller): Awaitable<Found> {
    const tokenHash = sha256(token, 'base64url');
    const rule = ruleSets.kept()?.letIn.recall(tokenHash);
    if (rule === undefined) return check(token, tokenHash, caller);
    watch.token('memory');
    return ok({ rule, atMs: feed.polledAtMs });
  }

  const isOutdated = (found: Found): boolean =>
    found.ok
      ? found.value !== null && !feed.isFresh(found.value.atMs)
      : found.error.code === 'invalid_api_key' && !feed.isCurrentForUse();

  /** Looks again once the feed is current. Rejects with a StoreOutage if that takes too long, too. */
  async function findAgain(token: string, caller: Caller): Promise<Found> {
    await feed.ensureFresh();
    const found = await findNow(token, caller);
    if (isOutdated(found)) throw new StoreOutage('rules are read slower than the revocation bound');
    return found;
  }

  return {
    /** Returns whether a token is to be looked at as a workload's, and not as a user's, by what it says. */
    isOfRule: async (token: string): Promise<boolean> => {
      const parsed = parseToken(token);
      return parsed !== null && candidatesOf(parsed, (await ruleSets.get()).byIssuer, users) !== null;
    },
    /**
     * Finds the rule that lets a token in; null: it is malformed or a user's, or no rule names its issuer. Lets nobody in by
     * rules and key sets that may have changed since, and refuses nobody by them in an outage: a rule may be new. Then it
     * looks once more, or throws a StoreOutage.
     */
    find: (token: string, caller: Caller): Awaitable<Found> =>
      chain(findNow(token, caller), (found) => (isOutdated(found) ? findAgain(token, caller) : found)),
  };
}

const refused = (reason: TokenRefusal, evidence: Pick<InvalidKey, 'issuer' | 'subject' | 'rules'>) =>
  err({ code: 'invalid_api_key', reason, ...evidence } as const);

type InvalidKey = Extract<Problem, { code: 'invalid_api_key' }>;

const outage = (error: unknown) => err(issuerOutageIn(error));

/** All rules as of one reading. Another reading is another object. */
interface RuleSet {
  readonly byIssuer: ReadonlyMap<string, readonly StoredRule[]>;
  /** The hashes by which the feed announces a change of a rule. */
  readonly hashes: ReadonlySet<string>;
  readonly letIn: Verdicts<RuleOfToken>;
}

/** Creates what keeps the rules. */
function createRuleSets(store: RuleStore, feed: Feed, clock: Clock) {
  let rules: RuleSet | null = null;
  const reads = singleFlights<RuleSet>((_, set) => {
    rules = set;
  });

  function forget(): void {
    rules = null;
    reads.forgetAll();
  }

  feed.subscribe({
    onChanges(hashes) {
      // While rules are being read, any hash may be one of theirs.
      if (rules === null || hashes.some((hash) => hash === RULES_CHANGED || rules?.hashes.has(hash))) forget();
    },
    onReset: forget,
  });

  async function readRules(): Promise<RuleSet> {
    const list = await store.list(clock.nowMs(), null, feed.queryTimeoutMs);
    return {
      byIssuer: Map.groupBy(list, ({ issuer }) => issuer),
      hashes: new Set(list.map(({ hash }) => hash)),
      letIn: createVerdicts(clock),
    };
  }

  return {
    /** Returns the rules that are kept; null: they have to be read. */
    kept: (): RuleSet | null => rules,
    get: (): Awaitable<RuleSet> => rules ?? reads.run('all', readRules),
  };
}
