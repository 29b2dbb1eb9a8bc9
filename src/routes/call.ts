// What every transport needs to turn an HTTP request into a tool call.

import { readCredentials } from '../http/credentials.ts';
import type { Exchange } from '../http/exchange.ts';
import { type Awaitable, isPromise } from '../problem.ts';
import { Call, type CallExtras } from '../tools/tool.ts';

/**
 * True where no credential is accepted: plain HTTP in production. Those in headers are refused before any handler; for
 * the body's key the routes ask.
 */
export type NeedsHttps = (exchange: Exchange) => boolean;

/** Makes the call of one request. */
export type CallMaker = (exchange: Exchange, metaApiKey: string | null, extras?: CallExtras) => Call;

export const createCallMaker =
  (sourceOf: (exchange: Exchange) => string): CallMaker =>
  (exchange, metaApiKey, extras) =>
    new Call(
      exchange.requestId,
      readCredentials(exchange.request.headers, metaApiKey),
      () => sourceOf(exchange),
      extras,
    );

/** A call that may take longer than this may come near its connection's idle timeout, 75 s (main.ts). */
const QUIET_CALL_MS_MAX = 60_000;

/** Keeps the connection open until the answer is there, if `timeoutMs` is near its idle timeout or above. */
export const holdingOpen = <T>(exchange: Exchange, timeoutMs: number, answer: Awaitable<T>): Awaitable<T> =>
  isPromise(answer) && timeoutMs > QUIET_CALL_MS_MAX ? holdOpenUntil(answer, exchange) : answer;

function holdOpenUntil<T>(answer: Promise<T>, { peer, request }: Exchange): Promise<T> {
  peer.holdOpen(request, true);
  return answer.finally(() => peer.holdOpen(request, false));
}
