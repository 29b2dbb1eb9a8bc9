// A service that accepts this server's keys, and what it asks: /changes and /introspect.

import { executeAt } from './database-client.ts';
import { readResponse, type TestApp, type TestResponse } from './test-app.ts';

export interface Service {
  readonly id: string;
  readonly key: string;
}

/** A key that may ask about others. */
export const serviceOf = (app: TestApp, owner = 'operator', input: Record<string, unknown> = {}): Promise<Service> =>
  app.createKey(owner, { scopes: ['introspect'], ...input });

type Fields = string | Record<string, string>;

const post = async (url: string, { id, key }: Service, fields: Fields): Promise<TestResponse> =>
  readResponse(
    await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        authorization: `Basic ${btoa(`${id}:${key}`)}`,
      },
      body: typeof fields === 'string' ? fields : new URLSearchParams(fields).toString(),
    }),
  );

export const changesOf = ({ url }: { url: string }, service: Service, fields: Fields): Promise<TestResponse> =>
  post(`${url}/changes`, service, fields);

/** Asks about a key; with a field `lease` the answer may be remembered. */
export const leaseOf = (
  { url }: { url: string },
  service: Service,
  token: string,
  fields: Record<string, string> = { lease: '' },
): Promise<TestResponse> => post(`${url}/introspect`, service, { token, ...fields });

/** As many changes of secrets, as if by a database shell. */
export async function changeKeys(app: TestApp, count: number): Promise<void> {
  await executeAt(`file:${app.folder}/keys.db`, {
    sql: `INSERT INTO changes (key_hash, changed_at_ms)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
SELECT 'changed ' || i, unixepoch() * 1000 FROM n`,
    args: [count],
  });
}
