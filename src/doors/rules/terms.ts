// Reads what an operator gives for a rule: its terms, and where its issuer's key set comes from.

import { readFileSync, statSync } from 'node:fs';
import { err, ok, type Result } from '../../ground/result.ts';
import { isScope } from '../../ground/text.ts';
import { isIssuer, trustedUrl } from '../../ground/urls.ts';
import { KEY_SET_BYTES_MAX, readKeySet } from './given-keys.ts';
import { AUDIENCES_MAX, audienceFault, CLAIMS_MAX, nameOf, type RuleTerms, readClaim, subjectFault } from './rule.ts';
import type { KeySetSource } from './store.ts';

export interface GivenTerms {
  readonly issuer: string;
  readonly subject: string;
  readonly audience: readonly string[];
  readonly claim: readonly string[];
  readonly scope: readonly string[];
}

/** Why an option can't be taken. */
export interface Malformed {
  readonly option: string;
  readonly expected: string;
}

const malformed = (option: string, expected: string): Result<never, Malformed> => err({ option, expected });

/** Returns the terms in the one form in which they are stored, in whatever order they were given, and the scopes. */
export function readTerms(
  given: GivenTerms,
): Result<RuleTerms & { readonly scopes: readonly string[] | null }, Malformed> {
  const { issuer, subject } = given;
  if (!isIssuer(issuer)) {
    return malformed('issuer', 'an https URL (http on loopback only) without user-info, query, fragment and *');
  }
  const subjectExpected = subjectFault(subject);
  if (subjectExpected !== null) return malformed('subject', subjectExpected);
  const audiences = [...new Set(given.audience)].sort();
  if (audiences.length > AUDIENCES_MAX) return malformed('audience', `at most ${AUDIENCES_MAX}`);
  const audienceExpected = audiences.map((audience) => audienceFault(audience, issuer)).find((fault) => fault !== null);
  if (audienceExpected != null) return malformed('audience', audienceExpected);
  const claims: string[] = [];
  for (const text of given.claim) {
    const read = readClaim(text);
    if ('expected' in read) return malformed('claim', read.expected);
    claims.push(read.claim);
  }
  if (claims.length > CLAIMS_MAX) return malformed('claim', `at most ${CLAIMS_MAX}`);
  if (new Set(claims.map(nameOf)).size < claims.length) return malformed('claim', 'each name once');
  if (!given.scope.every(isScope)) return malformed('scope', 'a scope');
  const scopes = given.scope.length > 0 ? [...new Set(given.scope)].sort() : null;
  return ok({ issuer, subject, audiences, claims: claims.sort(), scopes });
}

/** Reads `--jwks`: a file, a URL, or `fetch`. Throws the system's error of a file that can't be read. */
export async function readKeySetSource(given: string, issuer: string): Promise<Result<KeySetSource, Malformed>> {
  if (given === 'fetch') return ok(null);
  if (/^https?:/i.test(given)) {
    const url = trustedUrl(given);
    const isSafe = url !== null && (url.protocol === 'https:' || new URL(issuer).protocol === 'http:');
    return isSafe ? ok(given) : malformed('jwks', 'an https URL (http on loopback only, of an issuer on loopback)');
  }
  if (statSync(given).size > KEY_SET_BYTES_MAX) {
    return malformed('jwks', `a key set of at most ${KEY_SET_BYTES_MAX / 1024} KiB`);
  }
  const read = await readKeySet(readFileSync(given));
  return 'expected' in read ? malformed('jwks', read.expected) : ok(read.set);
}
