// Requests that arrive in one turn of the event loop are handled together at its end.

import { expect, test } from 'bun:test';
import { createRequestBatcher } from '../../src/web/dispatch.ts';

test('the first two are handled at once, the others together at the end of the turn', async () => {
  const endOfTurn = createRequestBatcher();
  const handled: string[] = [];
  const handle = async (name: string) => {
    await endOfTurn();
    handled.push(name);
  };
  const all = Promise.all(['a', 'b', 'c', 'd', 'e'].map(handle));
  await Promise.resolve();
  expect(handled).toEqual(['a', 'b']);
  await all;
  expect(handled).toEqual(['a', 'b', 'c', 'd', 'e']);
});

test('after a turn of more than four none is handled at once, and after a quiet one the first two do again', async () => {
  const endOfTurn = createRequestBatcher();
  const turnOf = (requests: number) => Array.from({ length: requests }, endOfTurn);
  const waits = (turn: ReturnType<typeof turnOf>) => turn.map((wait) => wait !== undefined);
  const first = turnOf(5);
  expect(waits(first)).toEqual([false, false, true, true, true]);
  await Promise.all(first);
  await new Promise(setImmediate);
  const second = turnOf(4);
  expect(waits(second)).toEqual([true, true, true, true]);
  await Promise.all(second);
  await new Promise(setImmediate);
  expect(waits(turnOf(3))).toEqual([false, false, true]);
});
