// What a token issuer publishes: its metadata (RFC 8414, OpenID Connect Discovery) and its key set. Fetches are bounded
// in time and size; nothing is cached here.

import type { JSONWebKeySet } from 'jose';
import { isLoopback } from '../ground/ip.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import { isObject, type JsonObject } from '../ground/text.ts';
import type { LoadJwks } from './jwks.ts';
import type { KeysUnavailable } from './verification-keys.ts';

/** For a whole look-up: up to three metadata addresses, then the key set. */
const FETCH_MS_MAX = 5000;
const PAGE_WAIT_MS_MAX = 2000;
const DOCUMENT_BYTES_MAX = 256 * 1024; // key sets of large issuers have a few KB

const unavailable = (reason: string) => err<KeysUnavailable>({ code: 'auth_unavailable', reason });

export interface SignInEndpoints {
  readonly authorization: URL;
  readonly token: URL;
  /** Whether every authorization response names the issuer (RFC 9207). */
  readonly sendsIss: boolean;
}

export const jwksAt =
  (url: URL, clock: Clock): LoadJwks =>
  () =>
    inTime(clock, FETCH_MS_MAX, (signal) => fetchKeySet(url, signal));

/** Loads the key set that the issuer's metadata names. The metadata is read each time, because the set may move. */
export const jwksOfIssuer =
  (issuer: string, clock: Clock): LoadJwks =>
  () =>
    inTime(clock, FETCH_MS_MAX, async (signal) => {
      const url = await fromMetadata(issuer, jwksUriIn, signal);
      return url.ok ? fetchKeySet(url.value, signal) : url;
    });

export const discoverJwksUri = (issuer: string, clock: Clock): Promise<Result<URL, KeysUnavailable>> =>
  inTime(clock, FETCH_MS_MAX, (signal) => fromMetadata(issuer, jwksUriIn, signal));

/** Bounded by PAGE_WAIT_MS_MAX: a visitor waits for the page. */
export const discoverSignIn = (issuer: string, clock: Clock): Promise<Result<SignInEndpoints, KeysUnavailable>> =>
  inTime(clock, PAGE_WAIT_MS_MAX, (signal) => fromMetadata(issuer, endpointsIn, signal));

async function inTime<T>(clock: Clock, ms: number, look: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const late = new DOMException('The issuer took too long', 'TimeoutError');
  const cancel = clock.after(ms, () => controller.abort(late));
  try {
    return await look(controller.signal);
  } finally {
    cancel();
  }
}

type ReadMetadata<T> = (metadata: JsonObject, issuer: string) => Result<T, KeysUnavailable>;

async function fromMetadata<T>(
  issuer: string,
  read: ReadMetadata<T>,
  signal: AbortSignal,
): Promise<Result<T, KeysUnavailable>> {
  let reason = '';
  for (const address of metadataAddresses(issuer)) {
    const fetched = await fetchMetadata(address, issuer, signal);
    const found = fetched.ok ? read(fetched.value, issuer) : fetched;
    if (found.ok) return found;
    reason ||= found.error.reason; // the first address is the one to put right
  }
  return unavailable(`the issuer's metadata ${reason}`);
}

async function fetchMetadata(address: string, issuer: string, signal: AbortSignal): ReturnType<typeof fetchDocument> {
  const fetched = await fetchDocument(address, signal);
  // RFC 8414 §3.3: metadata that names another issuer must not be used.
  return fetched.ok && fetched.value.issuer !== issuer ? unavailable('names another issuer') : fetched;
}

const jwksUriIn: ReadMetadata<URL> = ({ jwks_uri: uri }, issuer) => trustedUrl(uri, 'key set', issuer);

const endpointsIn: ReadMetadata<SignInEndpoints> = (metadata, issuer) => {
  const authorization = trustedUrl(metadata.authorization_endpoint, 'authorization endpoint', issuer);
  if (!authorization.ok) return authorization;
  const token = trustedUrl(metadata.token_endpoint, 'token endpoint', issuer);
  if (!token.ok) return token;
  const sendsIss = metadata.authorization_response_iss_parameter_supported === true;
  return ok({ authorization: authorization.value, token: token.value, sendsIss });
};

function trustedUrl(text: unknown, what: string, issuer: string): Result<URL, KeysUnavailable> {
  if (typeof text !== 'string' || !URL.canParse(text)) return unavailable(`names no ${what}`);
  const url = new URL(text);
  // Plain HTTP only where the issuer itself may use it: on loopback.
  const trusted = url.protocol === 'https:' || (isLoopback(url.hostname) && isLoopback(new URL(issuer).hostname));
  return trusted ? ok(url) : unavailable(`names a ${what} that is not served over https`);
}

/** RFC 8414 §3.1 puts the well-known part before the issuer's path, OpenID Connect Discovery §4.1 after it. */
function metadataAddresses(issuer: string): string[] {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/$/, '');
  return [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    ...(path === '' ? [] : [`${origin}${path}/.well-known/openid-configuration`]),
  ];
}

async function fetchKeySet(url: URL, signal: AbortSignal): Promise<Result<JSONWebKeySet, KeysUnavailable>> {
  const fetched = await fetchDocument(url.href, signal);
  // Its shape is checked by the caller.
  return fetched.ok
    ? ok(fetched.value as unknown as JSONWebKeySet)
    : unavailable(`the key set ${fetched.error.reason}`);
}

/** The JSON object at `address`. Redirects are not followed: one could lead into this machine's network. */
async function fetchDocument(address: string, signal: AbortSignal): Promise<Result<JsonObject, KeysUnavailable>> {
  try {
    const response = await fetch(address, { redirect: 'manual', headers: { accept: 'application/json' }, signal });
    if (response.status !== 200) {
      await response.body?.cancel();
      return unavailable(`answered ${response.status}`);
    }
    const text = await readText(response);
    if (text === null) return unavailable('is too large');
    const document: unknown = JSON.parse(text);
    return isObject(document) ? ok(document) : unavailable(NO_OBJECT);
  } catch (error) {
    if (error instanceof SyntaxError) return unavailable(NO_OBJECT);
    const { name, code } = error as { name?: unknown; code?: unknown };
    return unavailable(`could not be fetched: ${typeof code === 'string' ? code : String(name)}`);
  }
}

const NO_OBJECT = 'is not a JSON object';

async function readText({ body }: Response): Promise<string | null> {
  const decoder = new TextDecoder();
  let bytes = 0;
  let text = '';
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength;
    if (bytes > DOCUMENT_BYTES_MAX) return null;
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
