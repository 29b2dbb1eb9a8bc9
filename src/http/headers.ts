// Headers that many answers share.

import type { RateLimitState } from '../guards/rate-limit.ts';

/** On every answer: no sniffing, and nothing in it is a page to run or frame. The preview page brings its own policy. */
export const SECURITY_HEADERS = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
} as const;

/** Strict-Transport-Security (RFC 6797) for production: a year. Subdomains are not ours to decide for. */
export const STRICT_TRANSPORT = 'max-age=31536000';

/** A JSON answer that belongs to one caller. */
export const PRIVATE_JSON_HEADERS = {
  'Content-Type': 'application/json',
  'Cache-Control': 'no-store',
  ...SECURITY_HEADERS,
} as const;

/** RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-10 §3, §4). */
export const rateLimitHeaders = ({ requests, windowS, remaining, resetS }: RateLimitState) => ({
  'RateLimit-Policy': `"key";q=${requests};w=${windowS}`,
  RateLimit: `"key";r=${remaining};t=${resetS}`,
});

/** The headers of a tool's answer, with the rate limit where it has one. */
export const privateJsonHeaders = (rateLimit: RateLimitState | undefined): Readonly<Record<string, string>> =>
  rateLimit === undefined ? PRIVATE_JSON_HEADERS : { ...PRIVATE_JSON_HEADERS, ...rateLimitHeaders(rateLimit) };
