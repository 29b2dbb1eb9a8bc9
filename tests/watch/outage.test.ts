// Outages: one line when one begins, one when it ends.

import { expect, test } from 'bun:test';
import { createOutageLog, type OutageEvents } from '../../src/watch/outage.ts';
import { testClock } from '../support/clock.ts';
import { collectedLog } from '../support/collected-log.ts';

async function linesOf(events: OutageEvents, happens: (outage: ReturnType<typeof createOutageLog>) => void) {
  const { log, lines } = collectedLog('info', testClock());
  happens(createOutageLog(log, events));
  return (await lines()).map(({ level, event, reason }) => [level, event, reason].join(' ').trim());
}

const EVENTS = { on: 'database not opened', off: 'database opened' } as const;

function twice(outage: ReturnType<typeof createOutageLog>): void {
  outage.ended();
  for (const reason of ['hangs', 'hangs', 'refuses', 'hangs', 'refuses']) outage.began(reason);
  expect(outage.isOn).toBe(true);
  for (let times = 0; times < 2; times += 1) outage.ended();
  expect(outage.isOn).toBe(false);
  outage.began('hangs');
}

test('an outage has one line, and its end another', async () => {
  expect(await linesOf(EVENTS, twice)).toEqual([
    'warn database not opened hangs',
    'info database opened',
    'warn database not opened hangs',
  ]);
});

test('where each reason counts, each has one line, also if two alternate', async () => {
  expect(await linesOf({ ...EVENTS, eachReason: true }, twice)).toEqual([
    'warn database not opened hangs',
    'warn database not opened refuses',
    'info database opened',
    'warn database not opened hangs',
  ]);
});

test('where each reason counts, ten have a line, however many there are', async () => {
  const lines = await linesOf({ ...EVENTS, eachReason: true }, ({ began, ended }) => {
    for (let number = 0; number < 100; number += 1) began(`reason ${number}`);
    ended();
  });
  expect(lines).toEqual([
    ...Array.from({ length: 10 }, (_, number) => `warn database not opened reason ${number}`),
    'info database opened',
  ]);
});

test('without an event for its end, only the beginning of an outage is logged', async () => {
  expect(await linesOf({ on: 'database not opened' }, twice)).toEqual([
    'warn database not opened hangs',
    'warn database not opened hangs',
  ]);
});
