// What every transport needs to turn an HTTP request into a tool call.

import { type Credentials, carriesCredential, readCredentials } from '../http/credentials.ts';
import type { Exchange } from '../http/exchange.ts';
import { type Awaitable, err, isPromise, ok, type Problem, type Result } from '../problem.ts';
import { Call, type CallExtras } from '../tools/tool.ts';

/** Makes the call of one request; refuses credentials that came over plain HTTP where that is not allowed. */
export type CallMaker = (exchange: Exchange, metaApiKey: string | null, extras?: CallExtras) => Result<Call, Problem>;

export function createCallMaker(options: {
  readonly httpsOnly: boolean;
  readonly sourceOf: (exchange: Exchange) => string;
}): CallMaker {
  const { httpsOnly, sourceOf } = options;
  return (exchange, metaApiKey, extras) => {
    const credentials: Credentials = readCredentials(exchange.request.headers, metaApiKey);
    // The header's credentials were refused before the body was read; those of the body are seen only now.
    if (httpsOnly && !exchange.secure && carriesCredential(credentials)) return err({ code: 'https_required' });
    return ok(new Call(exchange.requestId, credentials, () => sourceOf(exchange), extras));
  };
}

/** A connection that may be quiet for longer than this comes near its idle timeout, 75 s (main.ts). */
const QUIET_CALL_MS_MAX = 60_000;

/** Keeps the connection open while it waits for an answer that may take `timeoutMs`, if that is near its idle timeout. */
export function holdingOpen<T>({ peer, request }: Exchange, timeoutMs: number, answer: Awaitable<T>): Awaitable<T> {
  if (!isPromise(answer) || timeoutMs <= QUIET_CALL_MS_MAX) return answer;
  peer.holdOpen(request, true);
  return answer.finally(() => peer.holdOpen(request, false));
}
