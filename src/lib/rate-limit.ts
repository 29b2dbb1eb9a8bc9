// What a rate limit or quota allows, and what is left of it.

/** What a limit allows. Few objects are in use, so an object identifies a limit. */
export interface RateLimit {
  readonly requests: number;
  readonly windowS: number;
}

/** What a limit is called in headers. */
export type LimitName = 'key' | 'quota' | 'user';

export interface RateLimitState {
  /** `key` unless given. */
  readonly name?: LimitName;
  readonly limit: RateLimit;
  readonly remaining: number;
  /** Whole seconds until the window ends, rounded up. */
  readonly resetS: number;
  /** A second limit that counts too. */
  readonly and?: RateLimitState;
}
