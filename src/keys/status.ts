// Whether a record's key may be used at a given time. Pure.

import type { KeyRefusal } from '../problem.ts';
import type { ApiKeyRecord } from './record.ts';

/** Null when usable. A key is usable up to and including the millisecond of `expiresAtMs`. */
export function refusalAt(record: ApiKeyRecord, nowMs: number): KeyRefusal | null {
  if (!record.active) return 'revoked';
  if (record.expiresAtMs !== null && record.expiresAtMs < nowMs) return 'expired';
  return null;
}
