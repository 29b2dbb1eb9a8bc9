// Finds the subjects of a request by its valid credentials, to bind a session to them. Never denies.

import { type CredentialedCall, presentedKey, type VerifyKey } from '../calls/api-key.ts';
import type { VerifyUserJwt } from '../calls/user-jwt.ts';
import type { Sha256 } from '../lib/runtime.ts';
import type { Problem } from '../problem.ts';

export interface Subjects {
  readonly subjects: readonly string[];
  /** Why a credential can't be judged now; null: `subjects` is complete. */
  readonly unknown: Problem | null;
  /** Hashes of the credentials. */
  readonly valid: readonly string[];
  readonly wrong: readonly string[];
}

export type ResolveSubjects = (call: CredentialedCall) => Promise<Subjects>;

/** Problems that say that a credential is wrong; others say nothing about it. */
const WRONG: readonly string[] = ['invalid_token', 'invalid_api_key'];

export function createResolveSubjects(
  verifyUserJwt: VerifyUserJwt,
  verifyKey: VerifyKey,
  sha256: Sha256,
): ResolveSubjects {
  return async (call) => {
    const subjects: string[] = [];
    const valid: string[] = [];
    const wrong: string[] = [];
    let unknown: Problem | null = null;
    for (const [credential, verify] of [
      [call.credentials.bearer, verifyUserJwt],
      [presentedKey(call.credentials), verifyKey],
    ] as const) {
      if (credential === null) continue;
      const verified = await verify(credential, call);
      if (verified.ok) {
        subjects.push(verified.value.subject);
        valid.push(sha256(credential, 'base64url'));
      } else if (WRONG.includes(verified.error.code)) wrong.push(sha256(credential, 'base64url'));
      else unknown ??= verified.error;
    }
    return { subjects, unknown, valid, wrong };
  };
}
