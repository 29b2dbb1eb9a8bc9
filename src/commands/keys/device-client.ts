// Asks a server that somebody named for a key, like a program without a browser (RFC 8628). A person decides on that server's
// page. It may respond with anything: responses are bounded, and only those of the device grant and of /token are accepted.

import * as v from 'valibot';
import { bodyOf, fetchEncoded } from '../../ground/fetching.ts';
import { isObject, type JsonObject, reasonOf, withoutControls } from '../../ground/text.ts';
import { publicUrl, trustedUrl } from '../../ground/urls.ts';
import { isIdShaped, isKeyShaped } from '../../keys/record.ts';
import { CommandError, type Io } from '../io.ts';
import { kind } from '../options.ts';

/** https, or http on this machine, because a key comes from there. `/mcp` or `/sse` at the end is dropped. */
export const SERVER = kind('URL', 'the https URL of a server', (given) =>
  trustedUrl(given) === null ? null : (publicUrl(given)?.replace(/\/(?:mcp|sse)$/, '') ?? null),
);

/** Far more than any valid response. */
const RESPONSE_BYTES_MAX = 64 * 1024;
const DAY_S = 86_400;

const seconds = v.pipe(v.number(), v.gtValue(0), v.maxValue(DAY_S));
const short = v.pipe(v.string(), v.minLength(1), v.maxLength(2000));

/** The response to a request for a key (§3.2). */
const begun = v.object({
  device_code: short,
  user_code: short,
  verification_uri_complete: v.pipe(short, v.url(), v.regex(/^https?:/i)),
  expires_in: seconds,
  interval: v.optional(seconds, 5),
});

/** The response with a key (RFC 6749 §5.1). */
const given = v.object({
  access_token: v.string(),
  key_id: v.optional(v.pipe(v.string(), v.check(isIdShaped)), ''),
  expires_in: v.optional(v.pipe(v.number(), v.safeInteger(), v.minValue(0))),
});

interface Answer {
  readonly status: number;
  /** Empty if the body isn't a JSON object, or is too large. */
  readonly body: JsonObject;
  /** Why there is no response. */
  readonly fault?: string;
}

export async function postForm(
  url: string,
  fields: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Answer> {
  try {
    const body = new URLSearchParams(fields);
    const response = await fetchEncoded(url, { method: 'POST', body, redirect: 'error', signal });
    return { status: response.status, body: await objectIn(response) };
  } catch (error) {
    return { status: 0, body: {}, fault: reasonOf(error) };
  }
}

/** Throws a CommandError if there is no response. */
export function assertReached(server: string, fault: string | undefined): void {
  if (fault !== undefined) throw new CommandError(`${server} can't be reached: ${fault}`);
}

/** Says in words what came instead of what was asked for. */
export const saidBy = ({ status, body: { error } }: Answer): string =>
  typeof error === 'string' ? withoutControls(error).slice(0, 100) : `it responded ${status}`;

export interface Wish {
  readonly name: string | undefined;
  readonly scopes: readonly string[];
}

/** Requests a key. Throws a CommandError if the server takes no requests. */
export async function requestKey(server: string, { name, scopes }: Wish, signal: AbortSignal) {
  const fields = {
    ...(name !== undefined && { client_name: name }),
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
  };
  const answer = await postForm(`${server}/device_authorization`, fields, signal);
  assertReached(server, answer.fault);
  const { success, output } = v.safeParse(begun, answer.body);
  if (success) return output;
  const hint = answer.status === 404 ? ', as without OAUTH_DEVICE=1' : '';
  throw new CommandError(`${server} takes no requests for keys: ${saidBy(answer)}${hint}`);
}

export function sayWhere({ say }: Io, uri: string, userCode: string): void {
  say(`Open ${withoutControls(uri)}`);
  say(`and check that it asks for ${withoutControls(userCode)}`);
}

export const NOBODY_DECIDED = 'nobody has decided in time';

const ENDED = new Map([
  ['access_denied', 'the person has refused'],
  ['expired_token', NOBODY_DECIDED],
  ['invalid_grant', 'the key can’t be made any more, or somebody has had it (look into the list of keys)'],
]);

/** Asks what has become of a request: `made` is the key, or null; `ended` says why there will be none. */
export async function poll(server: string, deviceCode: string, signal: AbortSignal) {
  const fields = { grant_type: 'urn:ietf:params:oauth:grant-type:device_code', device_code: deviceCode };
  const answer = await postForm(`${server}/token`, fields, signal);
  const verdict = verdictIn(answer);
  const isPending = verdict === 'authorization_pending';
  return { made: keyIn(answer, server), ended: ENDED.get(verdict ?? ''), isPending, fault: answer.fault };
}

/** Returns the key in a response of `server`; null: it has none. Throws a CommandError if it isn't valid. */
export function keyIn({ body }: Answer, server: string) {
  if (typeof body.access_token !== 'string') return null;
  const { success, output } = v.safeParse(given, body);
  if (success && isKeyShaped(output.access_token))
    return { key: output.access_token, id: output.key_id, livesS: output.expires_in };
  throw new CommandError(`${server} gave something that is no key of such a server`);
}

/**
 * Returns the OAuth error (RFC 6749 §5.2) by which the server decides; null: it hasn't decided. What stands before it, such
 * as a gateway, responds with pages and other statuses, and decides nothing.
 */
export const verdictIn = ({ status, body: { error } }: Answer): string | null =>
  status === 400 && typeof error === 'string' ? error : null;

/** Returns the JSON object in the body of a response to `fetchEncoded`; an empty one if there is none. */
export async function objectIn(response: Response): Promise<JsonObject> {
  const body: unknown = await textOf(response)
    .then(JSON.parse)
    .catch(() => null);
  return isObject(body) ? body : {};
}

/** Returns the body of a response to `fetchEncoded`. Throws an Error if it can't be read or is too large. */
export async function textOf(response: Response): Promise<string> {
  const body = await bodyOf(response, RESPONSE_BYTES_MAX);
  if (!body.ok) throw new Error(body.error);
  return new TextDecoder().decode(body.value);
}
