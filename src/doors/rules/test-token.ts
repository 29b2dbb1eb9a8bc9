// Says of a token each check, also after the first that fails, for an operator who wants to know why it isn't let in. The
// checks are those of the server (token-checks.ts, signature-queue.ts); their words are here.

import * as errors from 'jose/errors';
import { type Clock, rfc3339 } from '../../ground/runtime.ts';
import type { ServerAddress } from '../../ground/server-address.ts';
import { createAudience } from '../../keys/audience.ts';
import type { ListedKey } from '../../keys/record.ts';
import type { KeyReads } from '../../keys/store.ts';
import type { UserJwtConfig } from '../../users/index.ts';
import { ASYMMETRIC } from '../../users/jwks.ts';
import { verifySigned } from '../../users/signature.ts';
import { isUsers } from '../../users/user-token.ts';
import { issuerOutageIn } from '../../users/verification-keys.ts';
import type { Log } from '../../watch/log.ts';
import { createKeySets } from './key-sets.ts';
import { memberAt, nameOf } from './rule.ts';
import { type RulesOptions, ruleSettings } from './settings.ts';
import { verifyBy } from './signature-queue.ts';
import { createRuleStore, type StoredRule } from './store.ts';
import {
  AHEAD_S_MAX,
  boundBy,
  EARLY_CHECKS,
  fitOf,
  isFit,
  isTime,
  LIFE_S_MAX,
  type ParsedToken,
  parseToken,
} from './token-checks.ts';

export interface TestedCheck {
  readonly check: string;
  /** The rule that the check is of; absent: it is of the token. */
  readonly rule?: string;
  readonly verdict: 'ok' | 'no' | 'not checked';
  readonly found: string;
  readonly expected: string;
  /** What to do; empty if there is nothing. */
  readonly help: string;
}

export interface TestedToken {
  readonly checks: readonly TestedCheck[];
  /** Who it would be; null: nobody. */
  readonly as: 'user' | 'rule' | null;
  readonly rule?: string;
  readonly key?: ReturnType<typeof shownKey>;
}

interface TestingOptions extends RulesOptions {
  readonly findOwn: KeyReads['findOwn'];
  readonly config: UserJwtConfig & { readonly resources: readonly string[] };
  readonly address: ServerAddress;
  /** The server that the token is presented for; null: this one. */
  readonly resource: string | null;
  readonly clock: Clock;
  readonly log: Log;
}

export async function testToken(text: string, options: TestingOptions): Promise<TestedToken> {
  const { clock } = options;
  const settings = ruleSettings(options);
  const nowMs = clock.nowMs();
  const token = parseToken(text);
  if (token === null) return { checks: [formCheck(false), ...unchecked('no token of this form')], as: null };
  if (isUsers(token.header, token.payload, settings.users)) {
    return { checks: [formCheck(true), ...unchecked('a user token, which is nothing else')], as: 'user' };
  }
  const rules = (await createRuleStore(options.db).list(nowMs)).filter(({ issuer }) => issuer === token.payload.iss);
  const fitting = rules.filter((rule) => isFit(rule, token, settings.audiencesOf(rule)));
  const rule = fitting.length === 1 ? fitting[0] : undefined;
  const checks = [
    formCheck(true),
    issuerCheck(token, rules),
    headerCheck(token),
    timesCheck(token, nowMs),
    bearerCheck(token),
    await signatureCheck(text, rules, options),
    ...rules.flatMap((rule) => fitChecks(rule, token, settings.audiencesOf(rule))),
    ruleCheck(fitting.map(({ id }) => id)),
    keyCheck(rule, options),
  ];
  const key = rule !== undefined && areGood(checks) ? await options.findOwn(null, rule.keyId) : null;
  return key === null || rule === undefined
    ? { checks, as: null }
    : { checks, as: 'rule', rule: rule.id, key: shownKey(rule, key, token) };
}

/** Returns whether a token passes all checks. Those of each rule don't count: one says whether exactly one rule fits. */
const areGood = (checks: readonly TestedCheck[]): boolean =>
  checks.every(({ verdict, rule }) => verdict === 'ok' || rule !== undefined);

/** What each check of the token expects, in their order. */
const EXPECTED = {
  form: 'a JWT in compact form of at most 16,384 characters, in which no member stands twice',
  issuer: 'the issuer of a rule, character by character',
  header: `alg ${ASYMMETRIC.join(', ')}; typ absent, JWT, JOSE or at+jwt; no crit`,
  times: `numbers; now before exp; iat and nbf at most ${AHEAD_S_MAX} s ahead; at most ${LIFE_S_MAX / 3600} h from iat to exp`,
  bearer: 'a sub of 1 to 512 characters without controls; no cnf, no nonce',
  signature: 'a signature by a key of the issuer',
  rule: 'exactly one rule',
  key: 'a key in force, for the server that the token is presented for',
} as const;

/** Returns a check of the token as it is shown. `isGood`: null, if it was not made. */
const shownCheck = (check: keyof typeof EXPECTED, isGood: boolean | null, found: string, help = ''): TestedCheck => ({
  check,
  verdict: isGood === null ? 'not checked' : isGood ? 'ok' : 'no',
  found,
  expected: EXPECTED[check],
  help: isGood === true ? '' : help,
});

/** Returns the checks after the form, none of which was made. */
function unchecked(found: string): readonly TestedCheck[] {
  const [, ...later] = Object.keys(EXPECTED) as (keyof typeof EXPECTED)[];
  return later.map((check) => shownCheck(check, null, found));
}

function formCheck(isGood: boolean): TestedCheck {
  const found = isGood ? 'a JWT in compact form' : 'something else';
  return shownCheck('form', isGood, found, 'Give the token alone, as the platform made it');
}

const issuerCheck = ({ payload }: ParsedToken, rules: readonly StoredRule[]): TestedCheck =>
  shownCheck('issuer', rules.length > 0, `iss ${shown(payload.iss)}`, 'Add a rule of this issuer: keys rule add');

function headerCheck(token: ParsedToken): TestedCheck {
  const { alg, typ, crit } = token.header;
  const found = `alg ${shown(alg)}, typ ${shown(typ)}, crit ${shown(crit)}`;
  const help = 'Ask the platform for a token for its workload, signed by its key set';
  return shownCheck('header', EARLY_CHECKS.header(token) === null, found, help);
}

function timesCheck(token: ParsedToken, nowMs: number): TestedCheck {
  const { exp, iat, nbf } = token.payload;
  const refusal = EARLY_CHECKS.times(token, nowMs);
  const found = `iat ${shownTime(iat)}, nbf ${shownTime(nbf)}, exp ${shownTime(exp)}, now ${shownTime(nowMs / 1000)}`;
  return shownCheck('times', refusal === null, found, refusal === null ? '' : TIMES_HELP[refusal]);
}

const TIMES_HELP = {
  lifetime: 'Ask the issuer for tokens with iat and exp that are good for at most 25 hours',
  expired: 'Ask for a new token shortly before it is needed',
  'not yet': 'Set the clocks of the issuer and of this server',
} as const;

function bearerCheck(token: ParsedToken): TestedCheck {
  const found = boundBy(token.payload).join(' and ') || `sub ${shown(token.payload.sub)}`;
  const help = 'Ask for a token of the workload itself: this one is bound to a proof, or to a sign-in';
  return shownCheck('bearer', EARLY_CHECKS.bearer(token) === null, found, help);
}

async function signatureCheck(text: string, rules: readonly StoredRule[], { clock, log }: TestingOptions) {
  const said = (isGood: boolean | null, found: string, help = '') => shownCheck('signature', isGood, found, help);
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

/** Returns the checks of one rule. `audiences`: those that it accepts. */
function fitChecks(rule: StoredRule, token: ParsedToken, audiences: readonly string[]): readonly TestedCheck[] {
  const { id, subject, claims } = rule;
  const { aud, sub } = token.payload;
  const fit = fitOf(rule, token, audiences);
  const said = (check: keyof typeof fit, found: string, expected: string, help: string): TestedCheck => ({
    check,
    rule: id,
    verdict: fit[check] ? 'ok' : 'no',
    found,
    expected,
    help: fit[check] ? '' : help,
  });
  const members = claims.map(nameOf).map((name) => `${name} ${shown(memberAt(name, token.payload))}`);
  const add = (what: string) => `Add a rule with ${what}, if this workload may act as the key`;
  const ask = `Ask the platform for a token with the audience ${audiences[0]}`;
  return [
    said('audience', `aud ${shown(aud)}`, audiences.join(' or '), ask),
    said('subject', `sub ${shown(sub)}`, subject, add('this subject')),
    said('claims', members.join(', '), claims.join(', '), add('these claims')),
  ];
}

function ruleCheck(fitting: readonly string[]): TestedCheck {
  const help =
    fitting.length === 0
      ? 'Add a rule, if this workload may act as a key: keys rule add'
      : 'Remove all but one of these rules: keys rule remove';
  const found = fitting.join(', ') || 'none that fits';
  return shownCheck('rule', fitting.length === 1, found, help);
}

function keyCheck(rule: StoredRule | undefined, options: TestingOptions): TestedCheck {
  const said = (isGood: boolean | null, found: string, help = '') => shownCheck('key', isGood, found, help);
  if (rule === undefined) return said(null, 'no single rule that fits');
  const { address, config, resource: asked } = options;
  const { refused, resource } = rule;
  if (refused !== null) return said(false, refused, 'Give the rule another key');
  const audience = createAudience(address, config.resources);
  if (audience.admits(resource, asked === null ? {} : { resources: [asked] })) return said(true, 'a key in force');
  return said(false, `a key for ${resource} alone`, 'Name that server by --resource, or bind the key to it');
}

/** Returns the key that a token acts as, and until when. */
function shownKey({ keyId, scopes }: StoredRule, key: ListedKey, { payload }: ParsedToken) {
  const { name, userId: owner, expiresAtMs } = key;
  const given = scopes === null ? key.scopes : key.scopes.filter((scope) => scopes.includes(scope));
  return {
    id: keyId,
    name,
    owner,
    scopes: given,
    until: rfc3339(Math.min(Number(payload.exp) * 1000, expiresAtMs ?? Number.POSITIVE_INFINITY)),
  };
}

const SHOWN_CHARS_MAX = 200;

/** Returns a value as JSON shows it, or its beginning. */
const shown = (value: unknown): string =>
  value === undefined ? 'absent' : JSON.stringify(value).slice(0, SHOWN_CHARS_MAX);

/** The latest time that a Date can hold, in seconds. */
const DATE_S_MAX = 8.64e12;

function shownTime(value: unknown): string {
  if (!isTime(value) || Math.abs(value) > DATE_S_MAX) return shown(value);
  return new Date(value * 1000).toISOString();
}
