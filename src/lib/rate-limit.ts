// What a rate limit allows, and what is left of it.

/** What a limit allows. A guard uses one object for all its calls, so the object identifies the limit. */
export interface RateLimit {
  readonly requests: number;
  readonly windowS: number;
}

export interface RateLimitState {
  readonly limit: RateLimit;
  readonly remaining: number;
  /** Whole seconds until the window ends, rounded up. */
  readonly resetS: number;
}
