// Who sent an HTTP request, found when first asked for.

import { logRefused } from '../calls/api-key.ts';
import { callerOf } from '../calls/call.ts';
import { type Identify, type Identity, isWrong } from '../calls/identify.ts';
import type { Problem } from '../ground/problem.ts';
import { type Awaitable, chain } from '../ground/result.ts';
import type { Log } from '../watch/log.ts';
import type { RequestContext } from '../web/context.ts';
import { carriesCredential } from '../web/credentials.ts';

/** A class: every request on /mcp makes one, and most ask it nothing. */
export class Sender {
  #found: { readonly metaApiKey: string | null; readonly identity: Awaitable<Identity> } | undefined;

  constructor(
    readonly context: RequestContext,
    readonly identifyCall: Identify,
    readonly log: Log,
  ) {}

  /** `metaApiKey`: the key in the metadata of a message, which counts if the headers have none. */
  identify(metaApiKey: string | null): Awaitable<Identity> {
    const key = carriesCredential(this.context.credentials) ? null : metaApiKey;
    if (this.#found?.metaApiKey !== key) {
      this.#found = {
        metaApiKey: key,
        identity: this.identifyCall(callerOf(this.context, key)),
      };
    }
    return this.#found.identity;
  }

  /**
   * Why the bearer token is good for nothing: clients sign in again only when told by HTTP. Null if it is good, that
   * can't be decided now, there is none, or `X-API-Key` beside it is the credential.
   */
  badBearer(): Awaitable<Problem | null> {
    const { bearer, xApiKey } = this.context.credentials;
    return bearer === null || xApiKey !== null ? null : chain(this.identify(null), badIn, this);
  }
}

function badIn({ user, key }: Identity, { context, log }: Sender): Problem | null {
  const verdict = user ?? key;
  if (verdict === null || verdict.ok) return null;
  const { error: problem } = verdict;
  if (!isWrong(problem)) return null;
  const caller = callerOf(context);
  const { requestId, traceId } = caller;
  if (problem.code === 'invalid_token') log.warn('Invalid user token', { requestId, traceId, reason: problem.reason });
  else logRefused(log, problem, caller);
  return problem;
}
