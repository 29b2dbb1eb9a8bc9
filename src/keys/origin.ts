// Who makes a change of a key, and how: what its event says; and where a request comes from.

/** Where a request comes from. */
export interface Caller {
  readonly requestId: string;
  /** Of the trace that the request belongs to, if its caller keeps one. */
  readonly traceId?: string | undefined;
  /** Costs a system call: ask late. */
  clientAddress(): string;
  /** Whose budget of unknown keys is used up; that of the address's network unless given. */
  readonly lookupSource?: string | undefined;
}

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
