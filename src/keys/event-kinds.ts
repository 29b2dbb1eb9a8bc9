// The kinds of events in the trail of changes. Triggers write them (db/), and `keys restore`.

export const EVENT_KINDS = [
  'created',
  'rotated',
  'first_used',
  'revoked',
  'deleted',
  'changed',
  'blocked',
  'unblocked',
  'connected',
  'restored',
] as const;

export type EventKind = (typeof EVENT_KINDS)[number];
