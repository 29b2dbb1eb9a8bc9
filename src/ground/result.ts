// Expected failures as values, and values that may come later.

export type Result<T, E> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: E };

export type Awaitable<T> = T | Promise<T>;

export const ok = <T>(value: T): Result<T, never> => ({ ok: true, value });

export const err = <E>(error: E): Result<never, E> => ({ ok: false, error });

/** True for a promise: lets code that is usually synchronous skip the microtask. */
export const isPromise = <T>(value: Awaitable<T>): value is Promise<T> => value instanceof Promise;

/** Calls `next` now, or when `value` arrives. `context` spares hot paths a closure, which costs more than its work. */
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
