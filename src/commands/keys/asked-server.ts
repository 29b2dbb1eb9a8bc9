// Sends forms to a server that somebody named, and that may respond with anything: responses are bounded, and only those
// of the device grant (RFC 8628) and the token endpoint are accepted.

import * as v from 'valibot';
import { bodyOf, fetchEncoded } from '../../ground/fetching.ts';
import { isObject, type JsonObject } from '../../ground/text.ts';
import { isIdShaped, isKeyShaped } from '../../keys/record.ts';
import { CommandError } from '../io.ts';

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

export type Begun = v.InferOutput<typeof begun>;

/** The response with a key (RFC 6749 §5.1). */
const given = v.object({
  access_token: v.string(),
  key_id: v.optional(v.pipe(v.string(), v.check(isIdShaped)), ''),
  expires_in: v.optional(v.pipe(v.number(), v.safeInteger(), v.minValue(0))),
});

export interface Answer {
  readonly status: number;
  /** Empty if the body isn't a JSON object, or is too large. */
  readonly body: JsonObject;
}

/** Sends a form. Throws what `fetch` throws. */
export async function postForm(url: string, fields: Record<string, string>, signal: AbortSignal): Promise<Answer> {
  const response = await fetchEncoded(url, {
    method: 'POST',
    body: new URLSearchParams(fields),
    redirect: 'error',
    signal,
  });
  return { status: response.status, body: await objectIn(response) };
}

/** Returns the request that has begun; null: the response has none. */
export function begunIn({ body }: Answer): Begun | null {
  const parsed = v.safeParse(begun, body);
  return parsed.success ? parsed.output : null;
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
