// What the tests of a file share, or those of a `describe` that is async.

import { afterAll } from 'bun:test';

/** Waits until it is made, and disposes of it after the last of them. */
export async function shared<T extends AsyncDisposable | Disposable>(making: T | Promise<T>): Promise<T> {
  const stack = new AsyncDisposableStack();
  const made = stack.use(await making);
  afterAll(() => stack.disposeAsync());
  return made;
}
