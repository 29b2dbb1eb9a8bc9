// `keys create --ask`: asks another server for a key, as a program without a browser does (RFC 8628). A person decides on
// that server's page; only the key goes to stdout.

import * as v from 'valibot';
import { sleep } from '../../ground/runtime.ts';
import { reasonOf, withoutControls } from '../../ground/text.ts';
import { publicUrl, trustedUrl } from '../../ground/urls.ts';
import { isIdShaped, isKeyShaped } from '../../keys/record.ts';
import { CommandError, type Io } from '../io.ts';
import { kind } from '../options.ts';

const REQUEST_MS_MAX = 10_000;
/** Added to the pause when the server says `slow_down` (RFC 8628 §3.5), or doesn't respond. */
const SLOWER_S = 5;

const EXPIRED = 'nobody has decided in time: ask again';

const ENDED = new Map([
  ['access_denied', 'the person has refused'],
  ['expired_token', EXPIRED],
  ['invalid_grant', 'the key can’t be made any more, or somebody has had it: look into the list of keys'],
]);

/** https, or http on this machine: a key comes from there. With `/mcp` or `/sse` it is the same server. */
export const SERVER = kind('URL', 'the https URL of a server', (given) => {
  return trustedUrl(given) === null ? null : (publicUrl(given)?.replace(/\/(?:mcp|sse)$/, '') ?? null);
});

/** Far more than either response has. */
const RESPONSE_BYTES_MAX = 64 * 1024;
const DAY_S = 86_400;

const seconds = v.pipe(v.number(), v.gtValue(0), v.maxValue(DAY_S));
const short = v.pipe(v.string(), v.minLength(1), v.maxLength(2000));

const asked = v.object({
  device_code: short,
  user_code: short,
  verification_uri_complete: v.pipe(short, v.url()),
  expires_in: seconds,
  interval: v.optional(seconds, 5),
});
const answered = v.object({
  access_token: v.optional(v.string()),
  key_id: v.optional(v.pipe(v.string(), v.check(isIdShaped))),
  error: v.optional(v.string()),
});

interface Wish {
  readonly name: string | undefined;
  readonly scopes: readonly string[];
}

export async function askForKey(server: string, { name, scopes }: Wish, io: Io): Promise<void> {
  const wish = {
    ...(name !== undefined && { client_name: name }),
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
  };
  const request = await post(`${server}/device_authorization`, wish, asked).catch((error: unknown) => {
    throw new CommandError(`${server} takes no requests for keys: ${reasonOf(error)}`);
  });
  io.say(`Open ${withoutControls(request.verification_uri_complete)}`);
  io.say(`and check that it asks for ${withoutControls(request.user_code)}`);
  const { key, id } = await decided(server, request);
  io.say(`created ${withoutControls(id)}`);
  await io.write(`${key}\n`).catch(() => {
    throw new CommandError('the key could not be printed, and is lost: end it in the list of keys');
  });
}

/** Asks until a person has decided, or the time is over. */
async function decided(server: string, { device_code, expires_in, interval }: v.InferOutput<typeof asked>) {
  const grant = { grant_type: 'urn:ietf:params:oauth:grant-type:device_code', device_code };
  const untilMs = performance.now() + expires_in * 1000;
  for (let pauseS = interval; performance.now() < untilMs; ) {
    await sleep(Math.min(pauseS * 1000, untilMs - performance.now()));
    // A server that doesn't respond may do so the next time.
    const answer = await post(`${server}/token`, grant, answered).catch(() => ({ error: 'slow_down' }) as const);
    if ('access_token' in answer && answer.access_token !== undefined) {
      if (!isKeyShaped(answer.access_token))
        throw new CommandError(`${server} gave something that is no key of such a server`);
      return { key: answer.access_token, id: answer.key_id ?? '' };
    }
    const ended = ENDED.get(answer.error ?? '');
    if (ended !== undefined) throw new CommandError(ended);
    if (answer.error !== 'authorization_pending') pauseS += SLOWER_S;
  }
  throw new CommandError(EXPIRED);
}

/** Sends a POST. Throws an Error if the response is not of this shape. */
async function post<S extends v.GenericSchema>(
  url: string,
  fields: Record<string, string>,
  shape: S,
): Promise<v.InferOutput<S>> {
  const signal = AbortSignal.timeout(REQUEST_MS_MAX);
  const response = await fetch(url, { method: 'POST', body: new URLSearchParams(fields), redirect: 'error', signal });
  const body = await jsonOf(response).catch(() => null);
  const parsed = v.safeParse(shape, body);
  if (!parsed.success)
    throw new Error(`it responded ${response.status}${response.status === 404 ? ', as without OAUTH_DEVICE=1' : ''}`);
  return parsed.output;
}

/** Resolves with the parsed body. Throws an Error if it is no JSON, or too large. */
async function jsonOf({ body }: Response): Promise<unknown> {
  const decoder = new TextDecoder();
  let bytes = 0;
  let text = '';
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength;
    if (bytes > RESPONSE_BYTES_MAX) throw new RangeError('too large');
    text += decoder.decode(chunk, { stream: true });
  }
  return JSON.parse(text + decoder.decode());
}
