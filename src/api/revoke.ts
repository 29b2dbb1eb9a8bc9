// POST /revoke: revokes leaked keys (RFC 7009). Possession of a key is enough, without another credential. The response
// is the same for unknown keys.

import { invalidInput, type Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import { isObject } from '../ground/text.ts';
import type { Body } from '../web/body.ts';
import type { RequestContext } from '../web/context.ts';
import { json } from '../web/headers.ts';
import { problemResponse } from '../web/problem-response.ts';
import type { Handlers } from '../web/router.ts';

const TOKENS_MAX = 100;

/** Revokes all keys among `texts`, or fails if that can't be confirmed. */
export type RevokeSecrets = (texts: readonly string[], context: RequestContext) => Promise<Result<void, Problem>>;

export function revokeRoute(revokeSecrets: RevokeSecrets): Handlers {
  async function post(context: RequestContext, body: Body): Promise<Response> {
    const { requestId } = context;
    const tokens = body.ok ? tokensIn(body.value) : unread(body.error);
    if (!tokens.ok) return problemResponse(tokens.error, requestId);
    const trimmed = tokens.value.map((token) => token.trim()); // some come with the end of a file's line
    const revoked = await revokeSecrets(trimmed, context);
    return revoked.ok ? json(200, {}) : problemResponse(revoked.error, requestId);
  }
  return { post };
}

/** Returns the tokens. One that is no string makes all invalid: nobody should believe that an ignored key has ended. */
function tokensIn(body: unknown): Result<readonly string[], Problem> {
  if (body instanceof URLSearchParams) {
    const tokens = body.getAll('token');
    return tokens.length === 1 && tokens[0] !== '' ? ok(tokens) : invalid('', NO_TOKENS);
  }
  if (!Array.isArray(body) || body.length === 0 || body.length > TOKENS_MAX) return invalid('', NO_TOKENS);
  const tokens = body.map((item) => (isObject(item) ? item.token : item));
  const bad = tokens.findIndex((token) => typeof token !== 'string');
  return bad === -1 ? ok(tokens as string[]) : invalid(String(bad), NO_TOKEN);
}

const NO_TOKEN = 'Expected a string, or an object with a string `token`';
const NO_TOKENS = `Expected a JSON array of 1 to ${TOKENS_MAX} tokens, or a form with one field \`token\``;

const invalid = (path: string, message: string) => err(invalidInput(path, message, message));

function unread(problem: Problem): Result<never, Problem> {
  if (problem.code === 'invalid_json' && !problem.isNotUtf8) return invalid('', NO_TOKENS);
  return err(problem);
}
