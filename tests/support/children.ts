// Keys that make children, as their programs do it: POST /token with the grant type of RFC 8693.

import { readResponse, type TestApp, type TestResponse } from './test-app.ts';

export const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
/** A workload's token for a child of its rule's key (RFC 7523). */
export const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
export const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';

type Fields = Readonly<Record<string, string | undefined>>;

/** The form, with `fields` in place of its own; undefined: left out. */
export function exchangeForm(key: string, fields: Fields = {}): URLSearchParams {
  const all = { grant_type: EXCHANGE, subject_token: key, subject_token_type: ACCESS_TOKEN, scope: 'read', ...fields };
  const given = Object.entries(all).filter((field): field is [string, string] => field[1] !== undefined);
  return new URLSearchParams(given);
}

export const exchange = async (
  app: Pick<TestApp, 'url'>,
  key: string,
  fields?: Fields,
  headers?: Record<string, string>,
): Promise<TestResponse> =>
  readResponse(
    await fetch(`${app.url}/token`, { method: 'POST', body: exchangeForm(key, fields), headers: headers ?? {} }),
  );

export interface Child {
  readonly id: string;
  readonly key: string;
}

/** A child with the scope `read`, unless `fields` say otherwise. */
export async function childOf(app: Pick<TestApp, 'url'>, key: string, fields?: Fields): Promise<Child> {
  const { status, body } = await exchange(app, key, fields);
  if (status !== 200) throw new Error(`/token responded ${status} ${JSON.stringify(body)}`);
  return { id: body.key_id, key: body.access_token };
}
