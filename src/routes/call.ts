// What every transport needs to turn an HTTP request into a tool call.

import { readCredentials } from '../http/credentials.ts';
import type { Exchange } from '../http/exchange.ts';
import { type Awaitable, isPromise } from '../problem.ts';
import { Call, type CallExtras, type Tool } from '../tools/tool.ts';

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

/** Longer than a tool may be quiet on a connection before the runtime's idle timeout ends it (contract §8: 75 s). */
const QUIET_CALL_MS_MAX = 60_000;

/** Keeps the connection open while a tool runs that may take longer than the idle timeout. */
export function holdingOpen<T>({ peer, request }: Exchange, tool: Tool, answer: Awaitable<T>): Awaitable<T> {
  if (!isPromise(answer) || tool.timeoutMs <= QUIET_CALL_MS_MAX) return answer;
  peer.holdOpen(request, true);
  return answer.finally(() => peer.holdOpen(request, false));
}
