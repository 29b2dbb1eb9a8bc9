// What a tool's guards ask of its callers, in words: the end of its description, for agents and for readers of the
// OpenAPI document.

import type { Operation } from '../calls/operation.ts';
import { formatDuration } from '../lib/duration.ts';
import type { RateLimit } from '../lib/rate-limit.ts';

/** `description`, then the credential, the scopes and the rate limit. */
export function describedWithRequirements(description: string, operation: Operation): string {
  const { credential, fullQuota } = operation;
  const requirements = [
    credential === 'user_jwt' && 'Needs a user token.',
    credential === 'api_key' && `Needs an API key${scopesOf(operation)} (X-API-Key, or Authorization: Bearer).`,
    fullQuota && fullQuota.name !== 'user' && `At most ${limitInWords(fullQuota.limit)}.`,
  ];
  return [description, ...requirements].filter(Boolean).join(' ');
}

export const limitInWords = ({ requests, windowS }: RateLimit): string =>
  `${requests} calls in ${formatDuration(windowS * 1000)}`;

function scopesOf({ requiredScopes: scopes }: Operation): string {
  if (scopes.length === 0) return '';
  return ` with the scope${scopes.length > 1 ? 's' : ''} ${scopes.map((scope) => `\`${scope}\``).join(', ')}`;
}
