// One HTTP request on its way through the server, with what every step needs to know about it.

import { type Awaitable, isPromise } from '../lib/result.ts';

/** What only the runtime knows of a connection. One object per server: nothing is allocated per request. */
export interface Peer {
  /** The client's address as the socket has it, or null when it is gone. Costs a system call on Bun: ask late. */
  address(request: Request): string | null;
  /** Switches the idle timeout of the request's connection off, or (false) on again. */
  holdOpen(request: Request, hold: boolean): void;
  /** True for an HTTP/1.1 request without Host. Absent where the runtime refuses those itself. */
  lacksHost?(request: Request): boolean;
}

export interface Exchange {
  readonly request: Request;
  /** The path as it was sent, BASE_PATH included, without query. */
  readonly path: string;
  /** Unique in the log; shown to callers in every problem. */
  readonly requestId: string;
  /** True when the request came over this server's TLS, or over a trusted proxy's. */
  readonly secure: boolean;
  readonly peer: Peer;
  /** Set by a route whose answer may become wrong while it waits to leave. */
  perishable?: Perishable | undefined;
}

/** An answer that is good for only so long. */
export interface Perishable {
  /** Asked when the answer leaves: undefined if it is good, which is nearly always known at once; else what to say now. */
  renew(): Promise<Response | undefined> | undefined;
}

/**
 * True where no credential is accepted: on plain HTTP in production. Those in headers are refused before any handler;
 * the routes refuse a key in the body.
 */
export type NeedsHttps = (exchange: Exchange) => boolean;

/** A call that may take longer than this may come near its connection's idle timeout, 75 s (main.ts). */
const QUIET_CALL_MS_MAX = 60_000;

/** Keeps the connection open until the answer is there, if `timeoutMs` is near its idle timeout or above. */
export const holdingOpen = <T>(exchange: Exchange, timeoutMs: number, answer: Awaitable<T>): Awaitable<T> =>
  isPromise(answer) && timeoutMs > QUIET_CALL_MS_MAX ? holdOpenUntil(answer, exchange) : answer;

function holdOpenUntil<T>(answer: Promise<T>, { peer, request }: Exchange): Promise<T> {
  peer.holdOpen(request, true);
  return answer.finally(() => peer.holdOpen(request, false));
}
