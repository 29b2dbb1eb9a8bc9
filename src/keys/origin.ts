// Who makes a change of a key, and how: what its event says.

import type { Caller } from './actor.ts';

export interface Origin {
  readonly how: 'tool' | 'possession' | 'use' | 'command' | 'import';
  /** The `sub` of a user token. */
  readonly actor: string | null;
  readonly requestId: string | null;
  readonly address: string | null;
}

export type OriginOf = (how: Origin['how'], caller: Caller, actor?: string) => Origin;

export const createOriginOf =
  (withAddresses: boolean): OriginOf =>
  (how, caller, actor) => ({
    how,
    actor: actor ?? null,
    requestId: caller.requestId,
    address: withAddresses ? caller.clientAddress() : null,
  });
