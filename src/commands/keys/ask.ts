// `keys create --ask`: requests a key from another server, like a program without a browser (RFC 8628). A person decides
// on that server's page; only the key goes to stdout.

import { sleep } from '../../ground/runtime.ts';
import { reasonOf, withoutControls } from '../../ground/text.ts';
import { publicUrl, trustedUrl } from '../../ground/urls.ts';
import { CommandError, type Io } from '../io.ts';
import { kind } from '../options.ts';
import { type Answer, type Begun, begunIn, keyIn, postForm, verdictIn } from './asked-server.ts';

const REQUEST_MS_MAX = 10_000;
/** Added to the pause after `slow_down` (RFC 8628 §3.5), or without a response. */
const SLOWER_S = 5;

const EXPIRED = 'nobody has decided in time: ask again';

const ENDED = new Map([
  ['access_denied', 'the person has refused'],
  ['expired_token', EXPIRED],
  ['invalid_grant', 'the key can’t be made any more, or somebody has had it: look into the list of keys'],
]);

/** https, or http on this machine, because a key comes from there. `/mcp` or `/sse` at the end is dropped. */
export const SERVER = kind('URL', 'the https URL of a server', (given) => {
  return trustedUrl(given) === null ? null : (publicUrl(given)?.replace(/\/(?:mcp|sse)$/, '') ?? null);
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
  const begun = await post(`${server}/device_authorization`, wish).catch((error: unknown) => {
    throw new CommandError(`${server} takes no requests for keys: ${reasonOf(error)}`);
  });
  const request = begunIn(begun);
  if (request === null) {
    const hint = begun.status === 404 ? ', as without OAUTH_DEVICE=1' : '';
    throw new CommandError(`${server} takes no requests for keys: it responded ${begun.status}${hint}`);
  }
  io.say(`Open ${withoutControls(request.verification_uri_complete)}`);
  io.say(`and check that it asks for ${withoutControls(request.user_code)}`);
  const { key, id } = await decided(server, request);
  io.say(`created ${withoutControls(id)}`);
  await io.write(`${key}\n`).catch(() => {
    throw new CommandError('the key could not be printed, and is lost: end it in the list of keys');
  });
}

/** Polls until a person has decided, or the request expires. */
async function decided(server: string, { device_code, expires_in, interval }: Begun) {
  const grant = { grant_type: 'urn:ietf:params:oauth:grant-type:device_code', device_code };
  const untilMs = performance.now() + expires_in * 1000;
  for (let pauseS = interval; performance.now() < untilMs; ) {
    await sleep(Math.min(pauseS * 1000, untilMs - performance.now()));
    // A server that doesn't respond may do so next time.
    const answer = await post(`${server}/token`, grant).catch(() => NO_ANSWER);
    const made = keyIn(answer, server);
    if (made !== null) return made;
    const verdict = verdictIn(answer);
    const ended = ENDED.get(verdict ?? '');
    if (ended !== undefined) throw new CommandError(ended);
    if (verdict !== 'authorization_pending') pauseS += SLOWER_S;
  }
  throw new CommandError(EXPIRED);
}

const NO_ANSWER: Answer = { status: 0, body: {} };

const post = (url: string, fields: Record<string, string>): Promise<Answer> =>
  postForm(url, fields, AbortSignal.timeout(REQUEST_MS_MAX));
