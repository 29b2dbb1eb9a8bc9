// Refusals are values (Result), outages are thrown (StoreOutage); Awaitable is a value now or later.

export type Result<T, E> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: E };

export type Awaitable<T> = T | Promise<T>;

export const ok = <T>(value: T): Result<T, never> => ({ ok: true, value });

export const err = <E>(error: E): Result<never, E> => ({ ok: false, error });

/** Returns whether a value is a promise. Code that is usually synchronous skips the microtask otherwise. */
export const isPromise = <T>(value: Awaitable<T>): value is Promise<T> => value instanceof Promise;

/** Calls `next` now, or when `value` resolves. `context` saves hot paths a closure, which costs more than its work. */
export function chain<T, U>(value: Awaitable<T>, next: (value: T) => Awaitable<U>): Awaitable<U>;
export function chain<T, U, C>(
  value: Awaitable<T>,
  next: (value: T, context: C) => Awaitable<U>,
  context: C,
): Awaitable<U>;
export function chain<T, U, C>(value: Awaitable<T>, next: (value: T, context: C) => Awaitable<U>, context?: C) {
  return isPromise(value) ? later(value, next, context as C) : next(value, context as C);
}

const later = <T, U, C>(value: Promise<T>, next: (value: T, context: C) => Awaitable<U>, context: C): Promise<U> =>
  value.then((arrived) => next(arrived, context));

export type OutageKind =
  | 'unreachable' // it may respond next time
  | 'refused' // by credential, permission or address: the operator has to act
  | 'no_schema' // it responds, but lacks our tables or columns
  | 'damaged'; // the file is damaged, in part or whole

/**
 * The key store is out of reach. Thrown, because little between the store and the edge can do without it: that takes it by
 * `outageIn`. All others arrive in one place each: of calls (calls/run.ts), of routes (web/dispatch.ts), of work in the
 * background (background.ts), and of commands (commands/command.ts).
 */
export class StoreOutage extends Error {
  override name = 'StoreOutage';

  constructor(
    /** The reason, for operators. */
    readonly reason: string,
    readonly kind: OutageKind = 'unreachable',
    /** The database's result code, such as SQLITE_FULL; empty if it gave none. */
    readonly code = '',
  ) {
    super(reason);
  }
}

export const isOutage = (error: unknown, kind: OutageKind): boolean =>
  error instanceof StoreOutage && error.kind === kind;

/** Returns the outage, or rethrows what is a bug. */
export function outageIn(error: unknown): StoreOutage {
  if (error instanceof StoreOutage) return error;
  throw error;
}
