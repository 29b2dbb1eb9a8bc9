// Reads what an operator gives for a rule: its terms, and where its issuer's key set comes from.

import { readFileSync } from 'node:fs';
import type { JWK } from 'jose';
import { err, ok, type Result } from '../../ground/result.ts';
import { strictObject } from '../../ground/strict-json.ts';
import { isObject, type JsonObject } from '../../ground/text.ts';
import { isIssuer, trustedUrl } from '../../ground/urls.ts';
import { ASYMMETRIC } from '../../users/jwks.ts';
import { type AskedRule, AUDIENCES_MAX, audienceFault, CLAIMS_MAX, nameOf, readClaim, subjectFault } from './rule.ts';
import type { KeySetSource } from './store.ts';

export interface GivenTerms {
  readonly issuer: string;
  readonly subject: string;
  readonly audience: readonly string[];
  readonly claim: readonly string[];
  readonly scope: readonly string[];
}

const malformed = (option: keyof GivenTerms | 'jwks', expected: string): Result<never, string> =>
  err(`--${option}: expected ${expected}`);

/**
 * Returns the terms in the one form in which they are stored, in whatever order they were given, and the scopes. Its error
 * is for the operator.
 */
export function readTerms(given: GivenTerms): Result<Omit<AskedRule, 'keyId'>, string> {
  const { issuer, subject } = given;
  if (!isIssuer(issuer)) {
    return malformed('issuer', 'an https URL (http on loopback only) without user-info, query, fragment and *');
  }
  const subjectExpected = subjectFault(subject);
  if (subjectExpected !== null) return malformed('subject', subjectExpected);
  const audiences = [...new Set(given.audience)].sort();
  if (audiences.length > AUDIENCES_MAX) return malformed('audience', `at most ${AUDIENCES_MAX}`);
  for (const audience of audiences) {
    const audienceExpected = audienceFault(audience, issuer);
    if (audienceExpected !== null) return malformed('audience', audienceExpected);
  }
  const claims: string[] = [];
  for (const text of given.claim) {
    const read = readClaim(text);
    if (!read.ok) return malformed('claim', read.error);
    claims.push(read.value);
  }
  if (claims.length > CLAIMS_MAX) return malformed('claim', `at most ${CLAIMS_MAX}`);
  if (new Set(claims.map(nameOf)).size < claims.length) return malformed('claim', 'each name once');
  const scopes = given.scope.length > 0 ? [...new Set(given.scope)].sort() : null;
  return ok({ issuer, subject, audiences, claims: claims.sort(), scopes });
}

/** Reads `--jwks`: a file, a URL, or `fetch`. Throws the system's error of a file that can't be read. */
export async function readKeySetSource(given: string, issuer: string): Promise<Result<KeySetSource, string>> {
  if (given === 'fetch') return ok(null);
  if (/^https?:/i.test(given)) {
    const url = trustedUrl(given);
    const isSafe = url !== null && (url.protocol === 'https:' || new URL(issuer).protocol === 'http:');
    return isSafe ? ok(given) : malformed('jwks', 'an https URL (http on loopback only, of an issuer on loopback)');
  }
  return readKeySet(readFileSync(given));
}

const KEY_SET_BYTES_MAX = 64 * 1024;
const KEYS_MAX = 50;

/** Private parts of keys (RFC 7518 §6), and a shared secret. */
const PRIVATE = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv'];

/**
 * Reads a key set (RFC 7517 §5). Returns it as it is stored. Keys that can't be used at all are refused now, not later.
 */
async function readKeySet(bytes: Uint8Array): Promise<Result<string, string>> {
  const refused = (expected: string) => malformed('jwks', expected);
  if (bytes.length > KEY_SET_BYTES_MAX) return refused(`a key set of at most ${KEY_SET_BYTES_MAX / 1024} KiB`);
  const keys = strictObject(bytes)?.keys;
  if (!Array.isArray(keys) || keys.length < 1 || keys.length > KEYS_MAX || !keys.every(isObject)) {
    return refused(`a JSON Web Key Set of 1 to ${KEYS_MAX} keys`);
  }
  if (keys.some((key) => PRIVATE.some((name) => Object.hasOwn(key, name)))) {
    return refused('public keys alone, without private parts');
  }
  const { importJWK } = await import('jose/key/import');
  const signing = keys.filter(({ use }) => use !== 'enc'); // issuers also publish keys to encrypt with
  for (const key of signing) {
    const isUsable = await importJWK(key as JWK, algorithmOf(key)).then(isLongEnough, () => false);
    if (!isUsable) return refused(CAN_VERIFY);
  }
  return signing.length === 0 ? refused(CAN_VERIFY) : ok(JSON.stringify({ keys }));
}

const CAN_VERIFY = 'keys that can verify a signature';

/** The least length of an RSA key (RFC 7518 §3.3): no signature by a shorter one is checked. */
const RSA_BITS_MIN = 2048;

const isLongEnough = (key: CryptoKey | Uint8Array): boolean =>
  key instanceof Uint8Array ||
  !('modulusLength' in key.algorithm) ||
  Number(key.algorithm.modulusLength) >= RSA_BITS_MIN;

/** Returns an algorithm by which to try the key, if it names none. */
function algorithmOf({ alg, kty, crv }: JsonObject): string {
  if (typeof alg === 'string') return ASYMMETRIC.includes(alg) ? alg : 'none';
  if (kty === 'RSA') return 'RS256';
  return kty === 'OKP' ? 'EdDSA' : crv === 'P-384' ? 'ES384' : crv === 'P-521' ? 'ES512' : 'ES256';
}
