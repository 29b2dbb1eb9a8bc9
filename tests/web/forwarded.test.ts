// Which address and protocol trusted proxies name as the client's.

import { expect, test } from 'bun:test';
import { forwardedFor, forwardedProto } from '../../src/web/forwarded.ts';

test.each([
  [1, '192.0.2.7', '192.0.2.7'],
  [1, '198.51.100.1, 192.0.2.7', '192.0.2.7'],
  [2, '203.0.113.9, 198.51.100.1, 192.0.2.7', '198.51.100.1'],
  [3, '203.0.113.9, 198.51.100.1,192.0.2.7', '203.0.113.9'],
  [4, '203.0.113.9, 198.51.100.1, 192.0.2.7', null],
  [2, '198.51.100.1', null],
  [2, ', 192.0.2.7', null],
  [1, '2001:db8::7', '2001:db8::7'],
  // Some proxies add the port, with which every connection would be a source of its own.
  [1, '192.0.2.7:50123', '192.0.2.7'],
  [1, '[2001:db8::7]:50123', '2001:db8::7'],
  [2, '[2001:db8::7]:50123, 192.0.2.7:1', '2001:db8::7'],
  [1, '[2001:db8::7]', '2001:db8::7'],
  [1, 'unknown', 'unknown'],
  [1, 'x'.repeat(64), 'x'.repeat(64)],
  [1, 'x'.repeat(65), null],
  [1, `sk_test_${'0'.repeat(64)}`, null],
  [1, '', null],
])('row %#: %i proxies', (proxies, value, address) => {
  expect(forwardedFor(new Headers({ 'x-forwarded-for': value }), proxies)).toBe(address);
});

test('entries in several headers are one list', () => {
  const headers = new Headers([
    ['x-forwarded-for', '203.0.113.9, 198.51.100.1'],
    ['x-forwarded-for', '192.0.2.7'],
  ]);
  expect(forwardedFor(headers, 2)).toBe('198.51.100.1');
});

test.each([
  [1, 'https', 'https'],
  [1, 'https, http', 'http'],
  [1, 'http,HTTPS', 'https'],
  [2, 'https, http', 'https'],
  [2, 'https, http, http', 'http'],
  [2, 'https', 'https'], // the inner proxy passes on what the outer one said
  [3, 'https, http', 'https'],
  [1, '', null],
])('%i proxies, X-Forwarded-Proto: %s is %s', (proxies, value, protocol) => {
  expect(forwardedProto(new Headers({ 'x-forwarded-proto': value }), proxies)).toBe(protocol);
});

test('without the headers nothing is known', () => {
  expect(forwardedFor(new Headers(), 1)).toBeNull();
  expect(forwardedProto(new Headers(), 1)).toBeNull();
});
