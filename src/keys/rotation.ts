// What a rotation does to a key, and what owners see of it. Pure.
//
// The secret in force goes on until its successor has been seen working: a response that was lost, or a secret that was
// never deployed, so locks nobody out.

import type { Problem } from '../problem.ts';
import { type ApiKeyRecord, fingerprintOf, type SecondSecret } from './record.ts';

/** A rotation under way. */
export interface Rotation {
  /** `until_first_use` of the new secret, or `overlapping`, while the previous one runs out. */
  readonly state: 'until_first_use' | 'overlapping';
  /** Last millisecond at which the previous secret is accepted; null before the first use. */
  readonly previousUntilMs: number | null;
  /** Of the secret that is not in force. */
  readonly otherFingerprint: string;
}

/** A second secret that still counts: a previous one stays on record when it has ended. */
const livingSecond = ({ second }: ApiKeyRecord, nowMs: number): SecondSecret | null =>
  second !== null && (second.endsAtMs === null || second.endsAtMs >= nowMs) ? second : null;

export function rotationAt(record: ApiKeyRecord, nowMs: number): Rotation | null {
  const second = livingSecond(record, nowMs);
  if (second === null || !record.active) return null;
  return {
    state: second.is === 'next' ? 'until_first_use' : 'overlapping',
    previousUntilMs: second.endsAtMs,
    otherFingerprint: fingerprintOf(second.hash),
  };
}

/** Why a key can't be rotated like this; null: it can. A key has at most two secrets. */
export function rotationRefusal(record: ApiKeyRecord, overlapMs: number, nowMs: number): Problem | null {
  const { active, expiresAtMs } = record;
  if (!active || (expiresAtMs !== null && expiresAtMs < nowMs)) return { code: 'key_not_active' };
  const second = livingSecond(record, nowMs);
  if (overlapMs > 0 && second?.is === 'previous') return { code: 'rotation_under_way', untilMs: second.endsAtMs };
  return null;
}
