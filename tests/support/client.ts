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

/** POSTs a text as JSON, whatever it is. */
export const postJsonText = (url: string, body: string, headers: Record<string, string> = {}, signal?: AbortSignal) =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
    ...(signal && { signal }),
  });

/** POSTs JSON. */
export const postJson = (url: string, body: unknown, headers?: Record<string, string>, signal?: AbortSignal) =>
  postJsonText(url, JSON.stringify(body), headers, signal);

export const callOver = async (
  url: string,
  tool: string,
  input: unknown = {},
  headers?: Record<string, string>,
  signal?: AbortSignal,
): Promise<TestResponse> => readResponse(await postJson(`${url}/tools/${tool}`, input, headers, signal));

/** A user of a server, and what she asks over REST. */
export async function userOn({ url }: { readonly url: string }, sub = 'alice') {
  const headers = await userHeaders(sub);
  const call = (tool: string, input: object = {}) => callOver(url, tool, input, headers);
  return {
    headers,
    call,
    /** With the scope `read`, unless `input` says otherwise. */
    create: (input: object = {}) => call('create_api_key', { name: 'n', scopes: ['read'], ...input }),
    revoke: async (keyId: string) => (await call('revoke_api_key', { keyId })).status,
    /** The status of a call with a key. */
    use: async (key: string) => (await callOver(url, 'get_data', {}, { 'x-api-key': key })).status,
    /** Of her keys, sorted. */
    ids: async (): Promise<string[]> =>
      (await call('list_api_keys')).body.keys.map(({ id }: { id: string }) => id).sort(),
  };
}
