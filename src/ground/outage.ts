// The key store is out of reach. Thrown by the store, because nobody between it and the edge can do anything about it,
// and caught in one place each: for calls (calls/run.ts), for routes (web/dispatch.ts), for work in the background
// (background.ts), and for commands (commands/command.ts).

export type OutageKind =
  | 'unreachable' // it may respond the next time
  | 'refused' // by credential, permission or address: the operator has to act
  | 'no_schema' // it responds, but our tables or columns are not there
  | 'damaged'; // its file, in part or whole

export class StoreOutage extends Error {
  override name = 'StoreOutage';

  constructor(
    /** For the log. */
    readonly reason: string,
    readonly kind: OutageKind = 'unreachable',
  ) {
    super(reason);
  }
}

export const isOutage = (error: unknown, kind: OutageKind): boolean =>
  error instanceof StoreOutage && error.kind === kind;

/** Rethrows what is a bug. */
export function outageIn(error: unknown): StoreOutage {
  if (error instanceof StoreOutage) return error;
  throw error;
}
