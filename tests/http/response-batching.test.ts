// Responses that become ready in one turn of the event loop leave together at its end, each right after its last look.

import { expect, test } from 'bun:test';
import { createResponseBatcher } from '../../src/http/response-batching.ts';

test('the first two leave at once; each of the others is looked at only when the one before it was written', async () => {
  const endOfTurn = createResponseBatcher();
  const events: string[] = [];
  const response = async (name: string) => {
    await endOfTurn();
    events.push(`look at ${name}`);
  };
  const write = (name: string) => response(name).then(() => events.push(`write ${name}`));
  const all = Promise.all(['a', 'b', 'c', 'd', 'e'].map(write));
  await Promise.resolve();
  expect(events).toEqual(['look at a', 'look at b']);
  await all;
  expect(events.slice(4)).toEqual(['look at c', 'write c', 'look at d', 'write d', 'look at e', 'write e']);
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
