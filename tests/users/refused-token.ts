// What every refusal of a user token has: one sentence for all reasons, a challenge, and a line in the log without the token.

import { expect } from 'bun:test';
import type { TestApp, TestResponse } from '../support/test-app.ts';

/** Shorter texts stand in any log. */
const TOKEN_CHARS_MIN = 20;

/** What a user asks. */
export const present = (app: TestApp, token: string): Promise<TestResponse> =>
  app.call('list_api_keys', {}, { authorization: `Bearer ${token}` });

export async function expectRefused(app: TestApp, token: string, reason?: string): Promise<void> {
  const { headers, body } = await present(app, token);
  expect(body).toMatchObject({ status: 401, code: 'invalid_token' });
  expect(body.detail).toBe(
    token.startsWith('sk_') ? 'This tool needs a user token; an API key was sent' : 'Invalid or expired user token',
  );
  expect(headers.get('www-authenticate')).toStartWith('Bearer error="invalid_token"');
  if (token.length >= TOKEN_CHARS_MIN) expect(await app.logText()).not.toContain(token);
  const line = (await app.log()).findLast(({ event }) => event === 'Invalid user token');
  expect(line).toMatchObject({ level: 'warn', requestId: body.requestId });
  if (reason !== undefined) expect(line?.reason).toBe(reason);
}
