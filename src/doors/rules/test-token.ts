// Says of a token each check, also after the first that fails, for an operator who wants to know why it isn't let in. The
// checks are those of the server (token-checks.ts, signature-queue.ts).

import * as errors from 'jose/errors';
import { type Clock, rfc3339 } from '../../ground/runtime.ts';
import type { ServerAddress } from '../../ground/server-address.ts';
import { createAudience } from '../../keys/audience.ts';
import type { UserJwtConfig } from '../../users/index.ts';
import { verifySigned } from '../../users/signature.ts';
import { isUsers } from '../../users/user-token.ts';
import { issuerOutageIn } from '../../users/verification-keys.ts';
import type { Log } from '../../watch/log.ts';
import { createKeySets } from './key-sets.ts';
import { type RulesOptions, ruleSettings } from './settings.ts';
import { verifyBy } from './signature-queue.ts';
import { createRuleStore, type ShownKeyOfRule, type StoredRule } from './store.ts';
import { EARLY_CHECKS, type Finding, fitOf, type ParsedToken, parseToken, shown, type Words } from './token-checks.ts';

export interface TestedCheck extends Words {
  readonly check: string;
  /** The rule that the check is of; absent: it is of the token. */
  readonly rule?: string;
  readonly verdict: 'ok' | 'no' | 'not checked';
}

export interface TestedToken {
  readonly checks: readonly TestedCheck[];
  /** Who it would be; null: nobody. */
  readonly as: 'user' | 'rule' | null;
  readonly rule?: string;
  readonly key?: ReturnType<typeof shownKey>;
}

interface TestingOptions extends RulesOptions {
  readonly config: UserJwtConfig & { readonly resources: readonly string[] };
  readonly address: ServerAddress;
  /** The server that the token is presented for; null: this one. */
  readonly resource: string | null;
  readonly clock: Clock;
  readonly log: Log;
}

export async function testToken(text: string, options: TestingOptions): Promise<TestedToken> {
  const { clock } = options;
  const store = createRuleStore(options.db);
  const settings = ruleSettings(options);
  const nowMs = clock.nowMs();
  const token = parseToken(text);
  if (token === null) return { checks: [formCheck(false), ...unchecked('no token of this form', nowMs)], as: null };
  if (isUsers(token.header, token.payload, settings.users)) {
    return { checks: [formCheck(true), ...unchecked('a user token, which is nothing else', nowMs)], as: 'user' };
  }
  const rules = (await store.list(nowMs)).filter(({ issuer }) => issuer === token.payload.iss);
  const early = EARLY_CHECKS.map((check) => shownFinding(check(token, nowMs)));
  const signature = await signatureCheck(text, rules, options);
  const fits = rules.map((rule) => ({ rule, findings: fitOf(rule, token, settings.audiencesOf(rule)) }));
  const fitting = fits.filter(({ findings }) => findings.every(({ refusal }) => refusal === null));
  const rule = fitting.length === 1 ? fitting[0]?.rule : undefined;
  const checks = [
    ...[formCheck(true), issuerCheck(token, rules), ...early, signature],
    ...fits.flatMap(({ rule, findings }) => findings.map((finding) => shownFinding(finding, rule.id))),
    ruleCheck(fitting.map(({ rule }) => rule.id)),
    keyCheck(rule, options),
  ];
  const key = rule !== undefined && letsIn(rule, checks) ? await store.keyOf(rule.keyId, nowMs) : null;
  return key === null || rule === undefined
    ? { checks, as: null }
    : { checks, as: 'rule', rule: rule.id, key: shownKey(rule, key, token) };
}

/** Returns whether a token passes all checks. Those of other rules don't count, which it needn't fit. */
const letsIn = ({ id }: StoredRule, checks: readonly TestedCheck[]): boolean =>
  checks.every(({ verdict, rule: of = id }) => verdict === 'ok' || of !== id);

/** What each check expects, but for those of token-checks.ts, which say it themselves. */
const EXPECTED = {
  issuer: 'the issuer of a rule, character by character',
  signature: 'a signature by a key of the issuer',
  rule: 'exactly one rule',
  key: 'a key in force, for the server that the token is presented for',
} as const;

/** Returns a check as it is shown. `isGood`: null, if it was not made. */
const shownCheck = (check: string, isGood: boolean | null, words: Words, rule?: string): TestedCheck => ({
  check,
  ...(rule !== undefined && { rule }),
  verdict: isGood === null ? 'not checked' : isGood ? 'ok' : 'no',
  ...words,
  ...(isGood === true && { help: '' }),
});

const shownFinding = ({ check, refusal, words }: Finding, rule?: string): TestedCheck =>
  shownCheck(check, refusal === null, words(), rule);

/** Returns the checks after the form, none of which was made. */
function unchecked(found: string, nowMs: number): readonly TestedCheck[] {
  const early = EARLY_CHECKS.map((check) => check({ header: {}, payload: {} }, nowMs));
  const { issuer, ...later } = EXPECTED;
  const expected = [
    ['issuer', issuer] as const,
    ...early.map(({ check, words }) => [check, words().expected] as const),
    ...Object.entries(later),
  ];
  return expected.map(([check, expected]) => shownCheck(check, null, { found, expected, help: '' }));
}

const formCheck = (isGood: boolean): TestedCheck =>
  shownCheck('form', isGood, {
    found: isGood ? 'a JWT in compact form' : 'something else',
    expected: 'a JWT in compact form of at most 16,384 characters, in which no member stands twice',
    help: 'Give the token alone, as the platform made it',
  });

function issuerCheck({ payload }: ParsedToken, rules: readonly StoredRule[]): TestedCheck {
  const found = `iss ${shown(payload.iss)}`;
  const help = 'Add a rule of this issuer: keys rule add';
  return shownCheck('issuer', rules.length > 0, { found, expected: EXPECTED.issuer, help });
}

async function signatureCheck(text: string, rules: readonly StoredRule[], { clock, log }: TestingOptions) {
  const said = (isGood: boolean | null, found: string, help = '') =>
    shownCheck('signature', isGood, { found, expected: EXPECTED.signature, help });
  const [first] = rules;
  if (first === undefined) return said(null, 'no key set', 'No rule names the issuer, so its keys are not known');
  try {
    const keys = createKeySets({ clock, log }).of(first);
    const signed = await verifySigned(keys, text, (getKey) => verifyBy(text, getKey));
    if (signed.ok) return said(true, EXPECTED.signature);
    const isUnknown = signed.error instanceof errors.JWKSNoMatchingKey;
    const found = isUnknown ? 'a kid or alg that no key of the set has' : 'a signature by another key';
    return said(false, found, 'Give the key set that the issuer signs with: --jwks');
  } catch (error) {
    return said(null, issuerOutageIn(error).reason, 'Let this machine reach the issuer, or give its key set: --jwks');
  }
}

function ruleCheck(fitting: readonly string[]): TestedCheck {
  const help =
    fitting.length === 0
      ? 'Add a rule, if this workload may act as a key: keys rule add'
      : 'Remove all but one of these rules: keys rule remove';
  const found = fitting.join(', ') || 'none that fits';
  return shownCheck('rule', fitting.length === 1, { found, expected: EXPECTED.rule, help });
}

function keyCheck(rule: StoredRule | undefined, options: TestingOptions): TestedCheck {
  const said = (isGood: boolean | null, found: string, help = '') =>
    shownCheck('key', isGood, { found, expected: EXPECTED.key, help });
  if (rule === undefined) return said(null, 'no single rule that fits');
  const { address, config, resource: asked } = options;
  const { refused, resource } = rule;
  if (refused !== null) return said(false, refused, 'Give the rule another key');
  const audience = createAudience(address, config.resources);
  if (audience.admits(resource, asked === null ? {} : { resources: [asked] })) return said(true, 'a key in force');
  return said(false, `a key for ${resource} alone`, 'Name that server by --resource, or bind the key to it');
}

/** Returns the key that a token acts as, and until when. */
function shownKey({ keyId, scopes }: StoredRule, key: ShownKeyOfRule, { payload }: ParsedToken) {
  const { name, owner, expiresAtMs } = key;
  const given = scopes === null ? key.scopes : key.scopes.filter((scope) => scopes.includes(scope));
  return {
    id: keyId,
    name,
    owner,
    scopes: given,
    until: rfc3339(Math.min(Number(payload.exp) * 1000, expiresAtMs ?? Number.POSITIVE_INFINITY)),
  };
}
