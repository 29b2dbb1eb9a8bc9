// Responses that nobody reads take little memory and nobody's time. With more clients, and on Deno, in unread.long.ts.

import { expect, test } from 'bun:test';
import { expectLittle } from './honest.ts';
import { UNREAD, UNREAD_OF_MANY, unread } from './unread.ts';

/** Before a byte of its response arrived, because the room was needed. */
const CUT_OFF = '';

const uses = [
  ...Object.entries(UNREAD).map((entry) => [200, ...entry] as const),
  ...Object.entries(UNREAD_OF_MANY).map((entry) => [60, ...entry] as const),
];

test.skipIf(process.platform !== 'linux').each(uses)(
  '%d clients that do not read %s',
  async (clients, _what, what) => {
    const report = await unread(what, clients);
    expect(report.statuses.filter((status) => !['200', '429', '503', CUT_OFF].includes(status))).toEqual([]);
    expectLittle(report);
  },
  180_000,
);
