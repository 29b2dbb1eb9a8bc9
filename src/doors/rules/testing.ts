// Says of a token each check, also after the first that fails, for an operator who wants to know why it isn't let in. The
// checks are those of the server (checks.ts, signatures.ts).

import * as errors from 'jose/errors';
import { type Clock, rfc3339 } from '../../ground/runtime.ts';
import type { ServerAddress } from '../../ground/server-address.ts';
import { createAudience } from '../../keys/audience.ts';
import type { UserJwtConfig } from '../../users/index.ts';
import { verifySigned } from '../../users/signature.ts';
import { isUsers } from '../../users/user-token.ts';
import { issuerOutageIn } from '../../users/verification-keys.ts';
import type { Log } from '../../watch/log.ts';
import { EARLY_CHECKS, type Finding, fitOf, type ParsedToken, parseToken, type Words } from './checks.ts';
import { createKeySets } from './key-sets.ts';
import { type RulesOptions, ruleSettings } from './settings.ts';
import { verifyBy } from './signatures.ts';
import { createRuleStore, type ShownKeyOfRule, type StoredRule } from './store.ts';

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
  if (token === null) return { checks: [MALFORMED, ...unchecked('no token of this form', nowMs)], as: null };
  if (isUsers(token.header, token.payload, settings.users)) {
    return { checks: [WELL_FORMED, ...unchecked('a user token, which is nothing else', nowMs)], as: 'user' };
  }
  const rules = (await store.list(nowMs)).filter(({ issuer }) => issuer === token.payload.iss);
  const early = EARLY_CHECKS.map((check) => shownFinding(check(token, nowMs)));
  const signature = await signatureOf(text, rules, options);
  const fits = rules.map((rule) => ({ rule, findings: fitOf(rule, token, settings.audiencesOf(rule, rule.resource)) }));
  const fitting = fits.filter(({ findings }) => findings.every(({ refusal }) => refusal === null));
  const rule = fitting.length === 1 ? fitting[0]?.rule : undefined;
  const checks = [
    ...[WELL_FORMED, issuerCheck(token, rules), ...early, signature],
    ...fits.flatMap(({ rule, findings }) => findings.map((finding) => shownFinding(finding, rule.id))),
    ruleCheck(fitting.map(({ rule }) => rule.id)),
    rule === undefined ? notChecked('key', 'no single rule that fits', EXPECTED.key) : keyCheck(rule, options),
  ];
  const isLetIn =
    rule !== undefined && checks.every(({ verdict, rule: of = rule.id }) => verdict === 'ok' || of !== rule.id);
  const key = isLetIn ? await store.keyOf(rule.keyId, nowMs) : null;
  return key === null || rule === undefined
    ? { checks, as: null }
    : { checks, as: 'rule', rule: rule.id, key: shownKey(rule, key, token) };
}

/** What each check expects, but for those of checks.ts, which say it themselves. */
const EXPECTED = {
  issuer: 'the issuer of a rule, character by character',
  signature: 'a signature by a key of the issuer',
  rule: 'exactly one rule',
  key: 'a key in force, for the server that the token is presented for',
} as const;

const shownCheck = (check: string, verdict: TestedCheck['verdict'], words: Words, rule?: string): TestedCheck => ({
  check,
  ...(rule !== undefined && { rule }),
  verdict,
  ...words,
  ...(verdict === 'ok' && { help: '' }),
});

const checked = (check: string, isGood: boolean, found: string, expected: string, help: string): TestedCheck =>
  shownCheck(check, isGood ? 'ok' : 'no', { found, expected, help });

const notChecked = (check: string, found: string, expected: string, help = ''): TestedCheck =>
  shownCheck(check, 'not checked', { found, expected, help });

const shownFinding = ({ check, refusal, words }: Finding, rule?: string): TestedCheck =>
  shownCheck(check, refusal === null ? 'ok' : 'no', words(), rule);

/** Returns the checks after the form, none of which was made. */
function unchecked(found: string, nowMs: number): readonly TestedCheck[] {
  const early = EARLY_CHECKS.map((check) => check({ header: {}, payload: {} }, nowMs));
  const { issuer, ...later } = EXPECTED;
  const expected = [
    ['issuer', issuer] as const,
    ...early.map(({ check, words }) => [check, words().expected] as const),
    ...Object.entries(later),
  ];
  return expected.map(([check, expected]) => notChecked(check, found, expected));
}

const FORM = 'a JWT in compact form of at most 16,384 characters, in which no member stands twice';
const WELL_FORMED = checked('form', true, 'a JWT in compact form', FORM, '');
const MALFORMED = checked('form', false, 'something else', FORM, 'Give the token alone, as the platform made it');

function issuerCheck({ payload }: ParsedToken, rules: readonly StoredRule[]): TestedCheck {
  const found = `iss ${JSON.stringify(payload.iss) ?? 'absent'}`;
  return checked('issuer', rules.length > 0, found, EXPECTED.issuer, 'Add a rule of this issuer: keys rule add');
}

async function signatureOf(text: string, rules: readonly StoredRule[], { clock, log }: TestingOptions) {
  const unknown = (found: string, help: string) => notChecked('signature', found, EXPECTED.signature, help);
  const [first] = rules;
  if (first === undefined) return unknown('no key set', 'No rule names the issuer, so its keys are not known');
  try {
    const keys = createKeySets({ clock, log }).of(first);
    const signed = await verifySigned(keys, text, (getKey) => verifyBy(text, getKey));
    if (signed.ok) return checked('signature', true, EXPECTED.signature, EXPECTED.signature, '');
    const isUnknown = signed.error instanceof errors.JWKSNoMatchingKey;
    const found = isUnknown ? 'a kid or alg that no key of the set has' : 'a signature by another key';
    const help = 'Give the key set that the issuer signs with: --jwks';
    return checked('signature', false, found, EXPECTED.signature, help);
  } catch (error) {
    return unknown(issuerOutageIn(error).reason, 'Let this machine reach the issuer, or give its key set: --jwks');
  }
}

function ruleCheck(fitting: readonly string[]): TestedCheck {
  if (fitting.length === 0) {
    const help = 'Add a rule, if this workload may act as a key: keys rule add';
    return checked('rule', false, 'none that fits', EXPECTED.rule, help);
  }
  const help = 'Remove all but one of these rules: keys rule remove';
  return checked('rule', fitting.length === 1, fitting.join(', '), EXPECTED.rule, help);
}

function keyCheck({ refused, resource }: StoredRule, options: TestingOptions): TestedCheck {
  const { address, config, resource: asked } = options;
  const audience = createAudience(address, config.resources);
  const isMeant = audience.admits(resource, asked === null ? {} : { resources: [asked] });
  const found = refused ?? (isMeant ? 'a key in force' : `a key for ${resource} alone`);
  const help = refused === null ? 'Name that server by --resource, or bind the key to it' : 'Give the rule another key';
  return checked('key', refused === null && isMeant, found, EXPECTED.key, help);
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
