// One HTTP request on its way through the server, with what every step needs to know about it.

import { type Awaitable, isPromise } from '../lib/result.ts';
import { forwardedFor, forwardedProto, forwardedRequestId } from './forwarded.ts';

/** What only the runtime knows of a connection. */
export interface Connections {
  /** The client's address as the socket has it, or null when it is gone. */
  address(request: Request): string | null;
  /** Switches the idle timeout of the request's connection off, or (false) on again. */
  holdOpen(request: Request, hold: boolean): void;
  /** True when each connection ends with the response on its way. */
  readonly ending?: boolean;
  /** True for an HTTP/1.1 request without Host. Absent where the runtime refuses those itself. */
  lacksHost?(request: Request): boolean;
}

/** What a server with this configuration makes of every request. */
export interface ServerFacts {
  /** How many proxies in front to believe. */
  readonly trustProxy: number;
  /** Production refuses credentials over plain HTTP. */
  readonly production: boolean;
  /** Whether this server has its own TLS. */
  readonly ownTls: boolean;
  /** An id that no other request has. */
  readonly newRequestId: () => string;
  readonly observe?: ObserveRequest | undefined;
  /** Resolves when the response to a request may leave; undefined, or without it: now. */
  readonly turn?: (request: Request) => Promise<void> | undefined;
}

/** What a request turned out to ask for, and who asked, for the access log. */
export interface RequestFacts {
  readonly tool?: string | undefined;
  readonly traceId?: string | undefined;
  readonly auth?: {
    readonly keyId?: string;
    readonly keyName?: string;
    readonly subject?: string;
    readonly actor?: string;
  };
}

/** Told of a request when it begins. Returns what is told of its response. */
export type ObserveRequest = (context: RequestContext) => (response: Response) => void;

export class RequestContext {
  /** The call that the request makes; of a batch, the last. */
  call: RequestFacts | undefined = undefined;
  /** The bytes of its body, once it is read. */
  bodyBytes = 0;
  /** Shown in the log, and to callers in every problem. Unique, unless a trusted proxy gave it. */
  readonly requestId: string;
  /** True when a trusted proxy named the request; its id is then sent back. */
  readonly idIsGiven: boolean;
  /** True when the request came over this server's TLS, or over a trusted proxy's. */
  readonly secure: boolean;
  /** Told of the response. */
  readonly observed: ReturnType<ObserveRequest> | undefined;
  /** The Origin header: whose page sent the request, if one did. */
  readonly origin: string | null;
  /** Those of the request, asked for once: each time costs a call into the runtime. */
  readonly headers: Headers;
  readonly #server: ServerFacts;
  readonly #connections: Connections;
  /** Its handling, and what extended it. */
  #partsUnderWay = 1;
  #deferred: (() => void)[] | undefined = undefined;
  #hadTurn = false;

  constructor(
    server: ServerFacts,
    connections: Connections,
    readonly request: Request,
    /** The path of its route in the route table; null if there is none. */
    readonly route: string | null,
  ) {
    const { headers } = request;
    this.#server = server;
    this.#connections = connections;
    this.headers = headers;
    this.origin = headers.get('origin');
    const { trustProxy, ownTls } = server;
    const given = trustProxy > 0 ? forwardedRequestId(headers) : null;
    this.idIsGiven = given !== null;
    this.requestId = given ?? server.newRequestId();
    this.secure = ownTls || (trustProxy > 0 && forwardedProto(headers, trustProxy) === 'https');
    this.observed = server.observe?.(this);
  }

  /**
   * False on plain HTTP in production. Credentials in headers are refused there before any handler; the routes refuse a
   * key in the body.
   */
  get acceptsCredentials(): boolean {
    return this.secure || !this.#server.production;
  }

  /** The client's address, for budgets. Costs a system call on Bun: ask late. */
  clientAddress(): string {
    const { trustProxy } = this.#server;
    const forwarded = trustProxy > 0 ? forwardedFor(this.headers, trustProxy) : null;
    return forwarded ?? this.#connections.address(this.request) ?? 'unknown';
  }

  /** True for an HTTP/1.1 request without Host, on a runtime that lets one through. */
  get lacksHost(): boolean {
    return this.#connections.lacksHost?.(this.request) ?? false;
  }

  /** True when the request's connection ends with the response. */
  get connectionEnds(): boolean {
    return this.#connections.ending ?? false;
  }

  /** Switches the idle timeout of the request's connection off, or (false) on again. */
  holdOpen(hold: boolean): void {
    this.#connections.holdOpen(this.request, hold);
  }

  /** Has `release` run once, when the request is over: its response has left or its client is gone, and nothing goes on. */
  defer(release: () => void): void {
    this.#deferred ??= [];
    this.#deferred.push(release);
  }

  /**
   * The request is not over before the function that is returned is called: for what goes on after its handling, such as
   * a response that is sent in pieces, or a tool.
   */
  extend(): () => void {
    this.#partsUnderWay += 1;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.endPart();
    };
  }

  /** Resolves when the response may leave. Undefined: now; and for whoever asks again. */
  turn(): Promise<void> | undefined {
    if (this.#hadTurn) return undefined;
    this.#hadTurn = true;
    return this.#server.turn?.(this.request);
  }

  /** A part of the request is over: its handling, which dispatch.ts says, or what extended it. */
  endPart(): void {
    this.#partsUnderWay -= 1;
    if (this.#partsUnderWay > 0 || this.#deferred === undefined) return;
    for (const release of this.#deferred) release();
    this.#deferred = undefined;
  }
}

/** A call that may take longer than this may come near its connection's idle timeout, 75 s (main.ts). */
const QUIET_CALL_MS_MAX = 60_000;

/** Keeps the connection open until the response is there, if `timeoutMs` is near its idle timeout or above. */
export function holdingOpen<T>(context: RequestContext, timeoutMs: number, result: Awaitable<T>): Awaitable<T> {
  if (!isPromise(result) || timeoutMs <= QUIET_CALL_MS_MAX) return result;
  context.holdOpen(true);
  return result.finally(() => context.holdOpen(false));
}
