// The trail of changes: what was done to which key, by whom, and how. The store writes it (db/README.md, key_events).

import type { Origin } from './actor.ts';

export interface KeyEvent {
  readonly seq: number;
  readonly atMs: number;
  /** Null: about an owner, or the whole database. */
  readonly keyId: string | null;
  /** Null: about the whole database. */
  readonly owner: string | null;
  readonly kind:
    | 'created'
    | 'rotated'
    | 'first_used'
    | 'revoked'
    | 'deleted'
    | 'changed'
    | 'blocked'
    | 'unblocked'
    | 'connected'
    | 'restored';
  /** `sql`: by a database's shell, or by a server of a version before events. */
  readonly how: Origin['how'] | 'sql';
  /** The `sub` of a user token; of `connected`, the host that got the key. */
  readonly actor: string | null;
  readonly requestId: string | null;
  readonly address: string | null;
  /** Of the secret that the event is about. */
  readonly fingerprint: string | null;
  /** Which secret has ended, if not the whole key by its owner. */
  readonly secret: 'in_force' | 'next' | 'previous' | null;
  /** Of `restored`: the newest event of the backup that was put back. */
  readonly backupSeq: number | null;
}

export interface EventQuery {
  /** Only events after this one; null: the newest. */
  readonly afterSeq: number | null;
  readonly limit: number;
  readonly keyId?: string | undefined;
  readonly owner?: string | undefined;
}
