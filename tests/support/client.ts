// A client of a server in another process: user tokens by the wall clock, and tool calls.

import { SignJWT } from 'jose';
import { readResponse, TEST_SECRET, type TestResponse } from './test-app.ts';

export const userToken = (sub: string, secret = TEST_SECRET, claims: object = {}): Promise<string> =>
  new SignJWT({ sub, ...claims })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('1h')
    .sign(new TextEncoder().encode(secret));

export const userHeaders = async (sub: string, secret?: string, claims?: object) => ({
  authorization: `Bearer ${await userToken(sub, secret, claims)}`,
});

export async function callOver(
  url: string,
  tool: string,
  input: unknown = {},
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<TestResponse> {
  const response = await fetch(`${url}/tools/${tool}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(input),
    ...(signal && { signal }),
  });
  return readResponse(response);
}
