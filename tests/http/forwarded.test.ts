// Which address a trusted proxy names as the client's.

import { expect, test } from 'bun:test';
import { forwardedFor } from '../../src/http/forwarded.ts';

test.each([
  ['192.0.2.7', '192.0.2.7'],
  ['198.51.100.1, 192.0.2.7', '192.0.2.7'],
  ['2001:db8::7', '2001:db8::7'],
  // Some proxies add the port, with which every connection would be a source of its own.
  ['192.0.2.7:50123', '192.0.2.7'],
  ['[2001:db8::7]:50123', '2001:db8::7'],
  ['[2001:db8::7]', '2001:db8::7'],
  ['unknown', 'unknown'],
  ['', null],
])('X-Forwarded-For: %s is %s', (value, address) => {
  expect(forwardedFor(new Headers({ 'x-forwarded-for': value }))).toBe(address);
});
