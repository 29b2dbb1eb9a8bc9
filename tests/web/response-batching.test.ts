// Responses that become ready in one turn of the event loop leave together at its end.

import { expect, test } from 'bun:test';
import { createResponseBatcher } from '../../src/web/response-batcher.ts';

test('the first two leave at once, the others together at the end of the turn', async () => {
  const endOfTurn = createResponseBatcher();
  const sent: string[] = [];
  const send = async (name: string) => {
    await endOfTurn();
    sent.push(name);
  };
  const all = Promise.all(['a', 'b', 'c', 'd', 'e'].map(send));
  await Promise.resolve();
  expect(sent).toEqual(['a', 'b']);
  await all;
  expect(sent).toEqual(['a', 'b', 'c', 'd', 'e']);
});

test('after a turn of more than four none leaves at once, and after a quiet one the first two do again', async () => {
  const endOfTurn = createResponseBatcher();
  const turnOf = (responses: number) => Array.from({ length: responses }, endOfTurn);
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
