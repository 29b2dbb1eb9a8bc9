// A key as the verbs show it: as an object, and as cells of a table. Never a whole hash.

import type { PlacedKey } from '../../keys/admin.ts';
import { fingerprintOf, refusalAt } from '../../keys/record.ts';
import { isoTime, localTime } from './terminal.ts';

export const keyObject = (key: PlacedKey) => ({
  id: key.id,
  owner: key.userId,
  name: key.name,
  scopes: key.scopes,
  active: key.active,
  blocked: key.blocked,
  createdAt: isoTime(key.createdAtMs),
  expiresAt: isoTime(key.expiresAtMs),
  lastUsedAt: isoTime(key.lastUsedAtMs),
  fingerprint: fingerprintOf(key.keyHash),
});

export const KEY_HEADS = ['ID', 'OWNER', 'NAME', 'SCOPES', 'STATE', 'CREATED', 'EXPIRES', 'LAST USED', 'FINGERPRINT'];

export const keyCells = (key: PlacedKey, nowMs: number): string[] => [
  key.id,
  key.userId,
  key.name,
  key.scopes.join(' ') || '-',
  refusalAt({ ...key, presented: 'in_force', secretEndsAtMs: null }, nowMs) ?? 'active',
  localTime(key.createdAtMs),
  localTime(key.expiresAtMs),
  localTime(key.lastUsedAtMs),
  fingerprintOf(key.keyHash),
];
