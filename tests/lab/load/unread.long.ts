// Responses that nobody reads, from many clients, on both runtimes.

import { test } from 'bun:test';
import { expectLittle } from './honest.ts';
import { UNREAD, UNREAD_OF_MANY, unread } from './unread.ts';

const uses = [
  ...Object.entries(UNREAD).map((entry) => [500, ...entry] as const),
  ...Object.entries(UNREAD_OF_MANY).flatMap((entry) => [100, 200].map((clients) => [clients, ...entry] as const)),
];

test.each((['bun', 'deno'] as const).flatMap((runtime) => uses.map((use) => [runtime, ...use] as const)))(
  '%s: %d clients that do not read %s',
  async (runtime, clients, _what, what) => {
    expectLittle(await unread(what, clients, runtime));
  },
);
