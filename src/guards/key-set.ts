// The key set of a token issuer: fetched, bounded, cached by jose, fetched again on an unknown `kid` with a cool-down.

import { createRemoteJWKSet, customFetch, type JWTVerifyGetKey } from 'jose';

/** The key set can't be had now. It says nothing about the token. */
export class KeySetUnavailable extends Error {
  override name = 'KeySetUnavailable';
}

const FETCH_TIMEOUT_MS = 5000;
const DOCUMENT_BYTES_MAX = 256 * 1024; // key sets of large issuers have a few KB
/** After a fetch, an unknown `kid` causes no other for this long: random ones must not load the issuer. */
const COOLDOWN_MS = 30_000;
const KEY_SET_FOR_MS = 10 * 60_000;
/** After a failed fetch the issuer is left alone this long. */
const FAILURE_PAUSE_MS = 1000;

/** The getter of the key set at `url`. `onChange` is called when a fetch brought another set than before. */
export function remoteKeySet(url: URL, onChange: () => void): JWTVerifyGetKey {
  let last = '';
  let failedAtMs = Number.NEGATIVE_INFINITY;

  async function fetchKeys(address: string, init: { signal?: AbortSignal }): Promise<Response> {
    if (performance.now() - failedAtMs < FAILURE_PAUSE_MS)
      throw new KeySetUnavailable('the last fetch failed a moment ago');
    try {
      const text = await fetchDocument(address, init.signal);
      if (last !== '' && text !== last) onChange();
      last = text;
      return new Response(text, { headers: { 'content-type': 'application/json' } });
    } catch (error) {
      failedAtMs = performance.now();
      throw error;
    }
  }

  return createRemoteJWKSet(url, {
    timeoutDuration: FETCH_TIMEOUT_MS,
    cooldownDuration: COOLDOWN_MS,
    cacheMaxAge: KEY_SET_FOR_MS,
    [customFetch]: fetchKeys as typeof fetch,
  });
}

/** As `remoteKeySet`, at the address that the issuer's metadata names, looked up at first use and until it succeeds. */
export function discoveredKeySet(issuer: string, onChange: () => void): JWTVerifyGetKey {
  let found: Promise<JWTVerifyGetKey> | undefined;
  return async (header, token) => {
    found ??= discoverKeySetUrl(issuer).then((url) => remoteKeySet(url, onChange));
    const current = found;
    try {
      return await (await current)(header, token);
    } catch (error) {
      if (error instanceof KeySetUnavailable && found === current) {
        found = undefined; // the address may have moved
      }
      throw error;
    }
  };
}

/** The `jwks_uri` in the issuer's metadata (RFC 8414 §3, OpenID Connect Discovery §4). Throws KeySetUnavailable. */
export async function discoverKeySetUrl(issuer: string): Promise<URL> {
  let reason = 'no metadata found';
  for (const address of metadataAddresses(issuer)) {
    try {
      const metadata = JSON.parse(await fetchDocument(address, AbortSignal.timeout(FETCH_TIMEOUT_MS))) as Record<
        string,
        unknown
      >;
      // RFC 8414 §3.3: metadata that names another issuer must not be used.
      if (metadata.issuer !== issuer) reason = 'the metadata names another issuer';
      else if (typeof metadata.jwks_uri !== 'string' || !URL.canParse(metadata.jwks_uri))
        reason = 'the metadata names no key set';
      else if (new URL(metadata.jwks_uri).protocol !== 'https:' && new URL(issuer).protocol === 'https:')
        reason = 'the key set is not served over https';
      else return new URL(metadata.jwks_uri);
    } catch (error) {
      reason = error instanceof KeySetUnavailable ? error.message : 'the metadata is no JSON object';
    }
  }
  throw new KeySetUnavailable(reason);
}

function metadataAddresses(issuer: string): string[] {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/$/, '');
  return [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    ...(path === '' ? [] : [`${origin}${path}/.well-known/openid-configuration`]),
  ];
}

// A redirect could lead anywhere, also into this machine's network: not followed.
async function fetchDocument(address: string, signal: AbortSignal | undefined): Promise<string> {
  try {
    const response = await fetch(address, {
      redirect: 'manual',
      headers: { accept: 'application/json' },
      ...(signal && { signal }),
    });
    if (response.status !== 200) throw new KeySetUnavailable(`answered ${response.status}`);
    const decoder = new TextDecoder();
    let bytes = 0;
    let text = '';
    for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      bytes += chunk.byteLength;
      if (bytes > DOCUMENT_BYTES_MAX) throw new KeySetUnavailable('the document is too large');
      text += decoder.decode(chunk, { stream: true });
    }
    return text + decoder.decode();
  } catch (error) {
    if (error instanceof KeySetUnavailable) throw error;
    const { name, code } = error as { name?: string; code?: string };
    throw new KeySetUnavailable(`fetch failed: ${code ?? name ?? 'unknown'}`);
  }
}
