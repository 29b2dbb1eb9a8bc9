// Fetches what a token issuer publishes: its metadata (RFC 8414, OpenID Connect Discovery) and its key set. Fetches are
// bounded in time and size, and follow no redirects. Also creates the cache of what they return.

import type { JSONWebKeySet } from 'jose';
import { singleFlight } from '../ground/cache.ts';
import { fetchDocument, fetchFault, inTime } from '../ground/fetching.ts';
import { isLoopback } from '../ground/ip.ts';
import { type Clock, withTimeout } from '../ground/runtime.ts';
import { expected, isObject, type JsonObject } from '../ground/text.ts';
import type { OutageLog } from '../watch/outage.ts';
import { IssuerOutage, issuerOutageIn } from './verification-keys.ts';

/** The timeout of a whole lookup: up to three metadata addresses, then the key set. */
const FETCH_MS_MAX = 5000;
const START_WAIT_MS_MAX = 2000;
const DOCUMENT_BYTES_MAX = 256 * 1024; // key sets of large issuers have a few KB

/** Another issuer's name is cut to fit a line. */
const NAMED_CHARS_MAX = 200;

const METADATA = "the issuer's metadata";

/**
 * Loads the key set at a URL, or the one that an issuer's metadata names. Reads the metadata each time, because the set may
 * move. Throws an IssuerOutage.
 */
export const loadJwks = (source: URL | string, clock: Clock): Promise<JSONWebKeySet> =>
  inTime(clock, FETCH_MS_MAX, async (signal) => {
    const url = source instanceof URL ? source : await fromMetadata(source, jwksUriIn, signal);
    return (await fetchObject('the key set', url.href, signal)) as unknown as JSONWebKeySet; // jwks.ts checks it
  });

/** Resolves with what `read` finds in the issuer's metadata. Throws an IssuerOutage. */
export const discover = <T>(issuer: string, read: ReadMetadata<T>, withinMs: number, clock: Clock): Promise<T> =>
  inTime(clock, withinMs, (signal) => fromMetadata(issuer, read, signal));

export const discoverJwksUri = (issuer: string, clock: Clock): Promise<URL> =>
  discover(issuer, jwksUriIn, FETCH_MS_MAX, clock);

/** Throws an Error for the operator unless the issuer's metadata names its key set. */
export async function demandKeySet(issuer: string, clock: Clock): Promise<void> {
  await discoverJwksUri(issuer, clock).catch((error) => refuse(issuer, error));
}

/** Throws an Error for the operator if metadata of the issuer names another issuer, and none this one. */
export async function checkIssuer(issuer: string, clock: Clock): Promise<void> {
  await discover(issuer, () => null, START_WAIT_MS_MAX, clock).catch((error) => {
    if (issuerOutageIn(error).otherIssuer !== null) refuse(issuer, error);
  });
}

function refuse(issuer: string, error: unknown): never {
  const { otherIssuer, reason } = issuerOutageIn(error);
  const what =
    otherIssuer === null
      ? `an issuer whose metadata names its key set, but ${reason}`
      : `${JSON.stringify(otherIssuer)} (the issuer's metadata names another issuer)`;
  throw new Error(expected('JWT_ISSUER', what, issuer));
}

/** Throws an IssuerOutage if the metadata lacks what it reads; then another address may have it. */
type ReadMetadata<T> = (metadata: JsonObject, issuer: string) => T;

async function fromMetadata<T>(issuer: string, read: ReadMetadata<T>, signal: AbortSignal): Promise<T> {
  let first: IssuerOutage | undefined; // the outage worth reporting
  for (const address of metadataAddresses(issuer)) {
    try {
      const metadata = await fetchObject(METADATA, address, signal);
      const { issuer: named } = metadata;
      if (typeof named !== 'string') throw new IssuerOutage(`${METADATA} names no issuer`);
      // RFC 8414 §3.3: don't use metadata that names another issuer.
      if (named !== issuer) {
        const shown = named.slice(0, NAMED_CHARS_MAX);
        throw new IssuerOutage(`${METADATA} names another issuer, ${JSON.stringify(shown)}`, shown);
      }
      return read(metadata, issuer);
    } catch (error) {
      const outage = issuerOutageIn(error);
      if (first === undefined || outage.otherIssuer !== null) first = outage;
    }
  }
  throw first;
}

const jwksUriIn: ReadMetadata<URL> = ({ jwks_uri: uri }, issuer) => namedUrl(uri, 'key set', issuer);

/** Returns a URL that the metadata names. Throws an IssuerOutage if it can't be trusted. */
export function namedUrl(text: unknown, what: string, issuer: string): URL {
  if (typeof text !== 'string' || !URL.canParse(text)) throw new IssuerOutage(`${METADATA} names no ${what}`);
  const url = new URL(text);
  if (url.username || url.password) throw new IssuerOutage(`${METADATA} names a ${what} with a user in its URL`);
  // Plain HTTP only on loopback, and if the issuer is there, too.
  if (url.protocol === 'https:' || (isLoopback(url.hostname) && isLoopback(new URL(issuer).hostname))) return url;
  throw new IssuerOutage(`${METADATA} names a ${what} that is not served over https`);
}

/**
 * Returns the possible addresses of the metadata: RFC 8414 §3.1 puts the well-known part before the issuer's path,
 * OpenID Connect Discovery §4.1 after it.
 */
function metadataAddresses(issuer: string): string[] {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/$/, '');
  return [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    ...(path === '' ? [] : [`${origin}${path}/.well-known/openid-configuration`]),
  ];
}

async function fetchObject(what: string, address: string, signal: AbortSignal): Promise<JsonObject> {
  const unusable = (why: string) => new IssuerOutage(`${what} ${why}`);
  const { status, body } = await fetchDocument(address, DOCUMENT_BYTES_MAX, signal).catch((error) => {
    throw unusable(fetchFault(error));
  });
  if (status !== 200) throw unusable(`answered ${status}`);
  if (!body.ok) throw unusable(body.error);
  const document = parseJson(body.value);
  if (isObject(document)) return document;
  throw unusable('is not a JSON object');
}

function parseJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    return null;
  }
}

interface IssuerCacheOptions {
  readonly ttlMs: number;
  /** The pause after a failed fetch. */
  readonly pauseMs: number;
  /** Up to which age a value is used while none can be fetched; by default no longer than `ttlMs`. */
  readonly lastsMs?: number | undefined;
  readonly clock: Clock;
  readonly outage: OutageLog;
}

/** How long callers wait for a fetch while the old value lasts. Then it counts as failed, and no later caller waits for it. */
const WAIT_MS_MAX = 500;
const TAKES_LONG = new IssuerOutage('the issuer takes long');

/** Creates a cache of what an issuer publishes. Concurrent callers share a fetch. No timers but those of callers. */
export function createIssuerCache<T>(load: () => Promise<T>, options: IssuerCacheOptions) {
  const { ttlMs, pauseMs, lastsMs = ttlMs, clock, outage } = options;
  let kept: { readonly value: T; readonly atMs: number } | undefined;
  let failed: { readonly outage: IssuerOutage; readonly atMs: number } | undefined; // since `kept`

  const ageOf = (atMs: number) => clock.monotonicMs() - atMs;
  const keptWithin = (ms: number): T | null => (kept !== undefined && ageOf(kept.atMs) < ms ? kept.value : null);
  const isPausing = () => fetching.underWay === undefined && failed !== undefined && ageOf(failed.atMs) < pauseMs;

  /** Fetches the value. Its age counts from the start of the fetch: if the machine slept meanwhile, it is stale at once. */
  const fetching = singleFlight(async () => {
    for (;;) {
      const atMs = clock.monotonicMs();
      const value = await load().catch(fail);
      outage.ended();
      failed = undefined;
      kept = { value, atMs };
      if (ageOf(atMs) < ttlMs) return value;
    }
  });

  function fail(error: unknown): never {
    const thrown = issuerOutageIn(error);
    outage.began(thrown.reason);
    failed = { outage: thrown, atMs: clock.monotonicMs() };
    throw thrown;
  }

  /** Fetches the value, or throws the IssuerOutage; within the pause after a failure that one. */
  async function refresh(): Promise<T> {
    if (isPausing() && failed !== undefined) throw failed.outage;
    return fetching.run();
  }

  /** Returns the cached value: a stale one only after a failed fetch, and while it lasts. Null: there is none. */
  function current(): T | null {
    const fresh = keptWithin(ttlMs);
    if (fresh !== null || failed === undefined) return fresh;
    const old = keptWithin(lastsMs);
    if (old !== null && !isPausing()) void fetching.run().catch(issuerOutageIn); // nobody waits for it
    return old;
  }

  return {
    current,
    refresh,
    /** Resolves with the value, with the old one while that lasts and none can be fetched in time. */
    async get(): Promise<T> {
      const known = current();
      if (known !== null) return known;
      const old = keptWithin(lastsMs);
      const fetched = refresh();
      if (old === null) return fetched;
      try {
        const value = await withTimeout(fetched, WAIT_MS_MAX, null, clock);
        if (value !== null) return value;
        failed ??= { outage: TAKES_LONG, atMs: clock.monotonicMs() };
      } catch (error) {
        issuerOutageIn(error);
      }
      return old;
    },
  };
}
