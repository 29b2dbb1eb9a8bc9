// Headers that many responses share.

import type { RateLimit, RateLimitState } from '../ground/rate-limit.ts';

/** On every response: no sniffing, and no page to run or frame. Pages bring their own policy. */
export const SECURITY_HEADERS = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
} as const;

/** For pages with scripts, each with its own policy. */
export const PAGE_HEADERS = {
  ...SECURITY_HEADERS,
  'Content-Type': 'text/html; charset=utf-8',
  'Cache-Control': 'no-store',
  'X-Frame-Options': 'DENY', // frame-ancestors, for browsers that don't know it
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
} as const;

/** Strict-Transport-Security (RFC 6797): a year. Not for subdomains, which may be served by others. */
export const STRICT_TRANSPORT = 'max-age=31536000';

export const UNCACHED_HEADERS = { 'Cache-Control': 'no-store', ...SECURITY_HEADERS } as const;

export const UNCACHED_JSON_HEADERS = { 'Content-Type': 'application/json', ...UNCACHED_HEADERS } as const;

/** RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-10 §3, §4). */
export function setRateLimit(headers: Headers, state: RateLimitState): void {
  headers.set('RateLimit-Policy', policyText(state));
  headers.set('RateLimit', stateText(state));
}

function policyText({ name = 'key', limit, and }: RateLimitState): string {
  const own = `"${name}";q=${limit.requests};w=${limit.windowS}`;
  return and === undefined ? own : `${own}, ${policyText(and)}`;
}

function stateText({ name = 'key', remaining, resetS, and }: RateLimitState): string {
  const own = `"${name}";r=${remaining};t=${resetS}`;
  return and === undefined ? own : `${own}, ${stateText(and)}`;
}

/** Limits whose headers are cached; keys may have limits of their own. */
const FILLED_MAX = 1000;

/**
 * Filling Headers is the most expensive part of a response, so they are filled once per limit. A Response must copy
 * them at once: the next call changes them.
 */
export function createResponseHeaders(common: Readonly<Record<string, string>>) {
  const unlimited = new Headers(common);
  const limited = new Map<RateLimit, { readonly headers: Headers; readonly and: RateLimit | undefined }>();

  function fill(state: RateLimitState): Headers {
    const headers = new Headers(common);
    setRateLimit(headers, state);
    if (limited.size >= FILLED_MAX) limited.clear();
    limited.set(state.limit, { headers, and: state.and?.limit });
    return headers;
  }

  return (rateLimit: RateLimitState | undefined): Headers => {
    if (rateLimit === undefined) return unlimited;
    const filled = limited.get(rateLimit.limit);
    if (filled === undefined || filled.and !== rateLimit.and?.limit) return fill(rateLimit);
    filled.headers.set('RateLimit', stateText(rateLimit));
    return filled.headers;
  };
}
