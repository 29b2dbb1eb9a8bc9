// Defines a rule: which tokens of an issuer act as which key, and what an operator may not write. Pure.

import { err, ok, type Result } from '../../ground/result.ts';
import { hasLength, isObject, isStorable, type JsonObject } from '../../ground/text.ts';

/** What decides which tokens a rule lets in. */
export interface RuleTerms {
  /** The `iss`, character by character. */
  readonly issuer: string;
  /** The `sub`: exact, or a beginning and a `*` for at least one character more. */
  readonly subject: string;
  /** Accepted `aud` values, sorted; empty: this server's own, as it is set when a token is checked. */
  readonly audiences: readonly string[];
  /** Claims as `name=value`, each name once, sorted. A name that begins with `/` is a JSON Pointer (RFC 6901). */
  readonly claims: readonly string[];
}

/** A rule as an operator asks for it. */
export interface AskedRule extends RuleTerms {
  readonly keyId: string;
  /** Scopes of the key that a token gets; null: all. */
  readonly scopes: readonly string[] | null;
}

export interface Rule extends AskedRule {
  /** 32 lowercase hex characters. */
  readonly id: string;
  /** SHA-256 of a secret that nobody has, written like a key's hash. */
  readonly hash: string;
}

export const RULE_MAXIMA = { ofKey: 20, inAll: 1000, issuers: 50 } as const;
export const AUDIENCES_MAX = 5;
export const CLAIMS_MAX = 10;

const SUBJECT_CHARS_MAX = 512;
const AUDIENCE_CHARS_MAX = 1000;
const CLAIM_NAME_CHARS_MAX = 200;
const CLAIM_VALUE_CHARS_MAX = 500;

/** Returns whether a text has 1 to so many characters, and no controls. */
const isText = (text: string, charsMax: number): boolean => hasLength(text, 1, charsMax) && isStorable(text);

/** Returns whether a token's `sub` can be looked at. */
export const isSubject = (sub: unknown): sub is string => typeof sub === 'string' && isText(sub, SUBJECT_CHARS_MAX);

/** Subjects whose third part names the namespace or path that a rule is for. */
const LONGER_BEGINNING = /^(?:system:serviceaccount:|spiffe:)/;

/** Returns why a rule can't have this subject, as what was expected; null: it can. */
export function subjectFault(subject: string): string | null {
  if (!isSubject(subject)) return `1 to ${SUBJECT_CHARS_MAX} characters without controls`;
  const star = subject.indexOf('*');
  if (star === -1) return null;
  if (star !== subject.length - 1) return 'no * but one at its end';
  if (!/[:/]$/.test(subject.slice(0, star))) return 'the * directly behind : or /';
  // The beginning `spiffe://acme/` has the parts `spiffe` and `acme`.
  const parts = subject
    .slice(0, star - 1)
    .replace('://', ':')
    .split(/[:/]/);
  if (parts.includes('')) return 'no empty part before the *';
  const partsMin = LONGER_BEGINNING.test(subject) ? 3 : 2;
  return parts.length < partsMin ? `at least ${partsMin} parts before the *, split at : and /` : null;
}

/** Returns why a rule can't ask for this audience, as what was expected; null: it can. */
export function audienceFault(audience: string, issuer: string): string | null {
  if (!isText(audience, AUDIENCE_CHARS_MAX)) return `1 to ${AUDIENCE_CHARS_MAX} characters without controls`;
  const bare = (url: string) => url.replace(/\/$/, '');
  if (bare(audience) === bare(issuer)) return 'an audience other than the issuer: such tokens are made for the issuer';
  const isOfOwner = isGitHub(issuer) && /^https:\/\/github\.com(?:\/|$)/i.test(audience);
  return isOfOwner ? "an audience of this server's own: tokens for https://github.com/… are made for others" : null;
}

/** Returns a claim in the one form in which it is stored, or what was expected of it. */
export function readClaim(text: string): Result<string, string> {
  if (text.indexOf('=') < 1) return err('NAME=VALUE');
  const { name, value } = partsOf(text);
  if (!isText(name, CLAIM_NAME_CHARS_MAX))
    return err(`a name of 1 to ${CLAIM_NAME_CHARS_MAX} characters without controls`);
  if (!isText(value, CLAIM_VALUE_CHARS_MAX))
    return err(`a value of 1 to ${CLAIM_VALUE_CHARS_MAX} characters without controls`);
  const path = pathOf(name);
  if (path === null) return err('in a JSON Pointer ~ only as ~0 or ~1');
  // A pointer to a member of the payload is that member's name, so that equal claims are equal texts.
  const [first = ''] = path;
  return ok(`${path.length === 1 && !/^\/|=/.test(first) ? first : name}=${value}`);
}

function partsOf(claim: string): { readonly name: string; readonly value: string } {
  const at = claim.indexOf('=');
  return { name: claim.slice(0, at), value: claim.slice(at + 1) };
}

export const nameOf = (claim: string): string => partsOf(claim).name;

/** Returns the members that a claim's name leads through; null: it begins like a JSON Pointer, and is none. */
function pathOf(name: string): readonly string[] | null {
  if (!name.startsWith('/')) return [name];
  if (/~(?![01])/.test(name)) return null;
  const parts = name.slice(1).split('/');
  return parts.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** Returns why a name of this issuer needs an id beside it, since names can be given up and taken by others; null: not. */
export function nameFault({ issuer, subject, claims }: RuleTerms): string | null {
  const names = new Set(claims.map(nameOf));
  const lacks = (expected: string) =>
    `the name of this subject can be given up, and taken by somebody else: expected ${expected}`;
  if (isGitHub(issuer) && !/^repo:[^/:@]+@\d+[/:]/.test(subject)) {
    if (names.has('repository_id') || names.has('repository_owner_id')) return null;
    return lacks('the id of the owner (repo:acme@123/…), --claim repository_id=… or --claim repository_owner_id=…');
  }
  if (hostOf(issuer) === 'gitlab.com' && !names.has('project_id') && !names.has('namespace_id')) {
    return lacks('--claim project_id=… or --claim namespace_id=…');
  }
  return null;
}

const hostOf = (issuer: string): string => new URL(issuer).hostname;

const isGitHub = (issuer: string): boolean => hostOf(issuer) === 'token.actions.githubusercontent.com';

/** Returns whether a rule's subject fits a token's. One that nobody could have added, such as `*` alone, fits none. */
export function fitsSubject(subject: string, sub: string): boolean {
  if (!subject.endsWith('*')) return sub === subject;
  const beginning = subject.slice(0, -1);
  return sub.length > beginning.length && sub.startsWith(beginning) && subjectFault(subject) === null;
}

/** Returns whether the payload has the value of a stored claim. Own members alone count; an array or object never fits. */
export function fitsClaim(claim: string, payload: JsonObject): boolean {
  const { name, value } = partsOf(claim);
  return textOf(memberAt(name, payload)) === value;
}

/** Returns what the payload has where a claim's name leads; undefined: nothing. */
export function memberAt(name: string, payload: JsonObject): unknown {
  let found: unknown = payload;
  const path = pathOf(name);
  if (path === null) return undefined;
  for (const part of path) {
    const isMember = isObject(found) || (Array.isArray(found) && /^(?:0|[1-9]\d*)$/.test(part));
    if (!isMember || !Object.hasOwn(found as object, part)) return undefined;
    found = (found as Record<string, unknown>)[part];
  }
  return found;
}

/** Returns a claim's value as a rule writes it; null: no rule can ask for it. A larger number would have lost digits. */
function textOf(value: unknown): string | null {
  if (typeof value === 'string') return value;
  return typeof value === 'boolean' || Number.isSafeInteger(value) ? String(value) : null;
}
