// One HTTP request on its way through the server, with what every step needs to know about it.

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
