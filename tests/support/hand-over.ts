// The person who hands a key to an OAuth client, as a browser does it: opens the page, and posts its form.

import { createHash, randomBytes } from 'node:crypto';
import { type Door, postForm, postJsonTo } from './key-request.ts';

/** Where the clients of these tests are. Never asked: the tests read where they are sent. */
export const CALLBACK = 'http://127.0.0.1:9/callback';

/** What a form of a page would send, without what people type. */
export function fieldsOf(html: string): URLSearchParams {
  const hidden = html.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g);
  return new URLSearchParams(Array.from(hidden, ([, name = '', value = '']) => [name, unescaped(value)]));
}

export const unescaped = (text: string): string =>
  text.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');

/** Opens the page at `url` and posts its form with what is typed; returns the response. */
export async function handOver(url: URL, typed: Record<string, string>, headers = {}): Promise<Response> {
  const page = await fetch(url, { headers, redirect: 'manual' });
  const html = await page.text();
  if (page.status !== 200) throw new Error(`the page responded ${page.status}: ${html}`);
  const form = fieldsOf(html);
  for (const [name, value] of Object.entries(typed)) form.set(name, value);
  const action = unescaped(/<form [^>]*action="([^"]*)"/.exec(html)?.[1] ?? '');
  return fetch(action, { method: 'POST', body: form, headers: { origin: url.origin, ...headers }, redirect: 'manual' });
}

/** What the page of keys sends for a person who makes a key for the connection; returns the response. */
export const makeForConnection = (
  door: Door,
  page: URL,
  user: Record<string, string>,
  decided: object = { name: 'by a click', scopes: ['read'], expiresInDays: 90 },
): Promise<Response> => postJsonTo(door, '/authorize', { ...Object.fromEntries(page.searchParams), ...decided }, user);

/** The code that a client gets for such a key. */
export async function codeByClick(...made: Parameters<typeof makeForConnection>): Promise<string> {
  const { location } = (await (await makeForConnection(...made)).json()) as { location: string };
  return new URL(location).searchParams.get('code') ?? '';
}

/** What the client is sent back with. */
export async function sentBack(response: Response): Promise<URLSearchParams> {
  const location = response.headers.get('location');
  if (location === null) throw new Error(`not sent back: ${response.status} ${await response.text()}`);
  return new URL(location).searchParams;
}

export type Registered = Awaited<ReturnType<typeof register>>;
/** In place of fields or parameters; null: without. */
type Changed = Readonly<Record<string, string | null>>;

const changing = (fields: Record<string, string>, changed: Changed) =>
  Object.entries({ ...fields, ...changed }).filter((field): field is [string, string] => field[1] !== null);

/** Registers a client by hand. */
export async function register(door: Door, redirectUris: readonly string[] = [CALLBACK]) {
  const response = await postJsonTo(door, '/register', { redirect_uris: redirectUris, client_name: 'by hand' });
  if (response.status !== 201) throw new Error(`not registered: ${response.status} ${await response.text()}`);
  const { client_id: clientId } = (await response.json()) as { client_id: string };
  const verifier = randomBytes(32).toString('base64url');
  const redirectUri = redirectUris[0] ?? '';
  return {
    clientId,
    verifier,
    /** The address of the page for this client. */
    page(changed: Changed = {}) {
      const asked = {
        response_type: 'code',
        client_id: clientId,
        redirect_uri: redirectUri,
        code_challenge: createHash('sha256').update(verifier).digest('base64url'),
        code_challenge_method: 'S256',
        state: 'of the client',
      };
      return new URL(`${door.url}/authorize?${new URLSearchParams(changing(asked, changed))}`);
    },
    /** POST /token for a code; `at`: of another process than it was registered at. */
    async redeem(code: string, changed: Changed = {}, headers: Record<string, string> = {}, at = door) {
      const asked = {
        grant_type: 'authorization_code',
        code,
        code_verifier: verifier,
        client_id: clientId,
        redirect_uri: redirectUri,
      };
      const fields = Object.fromEntries(changing(asked, changed));
      const { status, body } = await postForm(at, '/token', fields, headers);
      return { status, body: body as Record<string, unknown> };
    },
  };
}

/** The code that a client gets for a key. */
export async function codeFor(client: Registered, key: string, headers = {}): Promise<string> {
  const back = await sentBack(await handOver(client.page(), { key }, headers));
  return back.get('code') ?? '';
}
