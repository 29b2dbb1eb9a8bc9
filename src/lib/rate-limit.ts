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
  /** Another limit that counts too. */
  readonly and?: RateLimitState;
}

/** `state` with what came before it of other names, a person's last; it takes the place of one of its own. */
export function beside(before: RateLimitState | undefined, state: RateLimitState): RateLimitState {
  const others = before?.name === state.name ? before?.and : before;
  if (others === undefined) return state;
  return state.name === 'user' ? { ...others, and: state } : { ...state, and: others };
}
