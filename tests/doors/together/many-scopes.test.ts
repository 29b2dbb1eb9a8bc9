// Strangers may ask for as many scopes as fit into a form. That holds up everybody else no longer than any other form of
// that size.

import { expect, test } from 'bun:test';
import { ACCESS_TOKEN, EXCHANGE, JWT_BEARER } from '../../support/children.ts';
import { createTestApp } from '../../support/test-app.ts';

const CHARS = 1_000_000;
const MANY = Array.from({ length: 180_000 }, (_, number) => number.toString(36))
  .join('+')
  .slice(0, CHARS);
const ONE = 'x'.repeat(CHARS);
/** The shortest of so many times is the least disturbed. An address may ask for ten keys at once. */
const TIMES = 5;
/** Collecting 180,000 scopes takes ten times as long as reading the form. */
const FACTOR_MAX = 5;

test.each([
  ['asks for a key', '/device_authorization', ''],
  ['exchanges no key', '/token', `grant_type=${EXCHANGE}&subject_token_type=${ACCESS_TOKEN}&subject_token=x&`],
  ['asserts no token', '/token', `grant_type=${JWT_BEARER}&assertion=x&`],
])('who %s with 180,000 scopes takes little longer than with a single one as long', async (_, path, fields) => {
  await using app = await createTestApp({ env: { OAUTH_DEVICE: '1' } });
  /** Returns the time of the processor that a form takes, which other programs take none of. */
  async function workMs(scope: string): Promise<number> {
    const body = `${fields}scope=${scope}`;
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const before = process.cpuUsage();
    const response = await fetch(app.url + path, { method: 'POST', headers, body });
    await response.text();
    expect(response.status).toBe(fields === '' ? 200 : 400);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  }
  const [one, many]: [number[], number[]] = [[], []];
  for (let time = 0; time < TIMES; time += 1) {
    one.push(await workMs(ONE));
    many.push(await workMs(MANY));
  }
  expect(Math.min(...many) / Math.min(...one)).toBeLessThan(FACTOR_MAX);
});
