// The context of one HTTP request: its id, address, lifetime and credentials, for every step that handles it.

import { type Awaitable, isPromise } from '../ground/result.ts';
import { nextTurn } from '../ground/runtime.ts';
import type { ServerAddress } from '../ground/server-address.ts';
import { isObject } from '../ground/text.ts';
import { redactKeys } from '../watch/redact.ts';

export interface Connections {
  /** Returns the address of the socket's peer; null if the connection is gone. */
  address(request: Request): string | null;
  /** Disables the idle timeout of the request's connection, or (false) enables it again. */
  holdOpen(request: Request, hold: boolean): void;
  /** Returns whether an HTTP/1.1 request has no Host. Missing where the runtime itself refuses such requests. */
  lacksHost?(request: Request): boolean;
  /** Returns whether the server stops, and must refuse requests. Missing where the runtime itself closes its socket. */
  isClosed?(): boolean;
}

/** What the contexts of all requests have in common. */
export interface RequestServer {
  /** The number of proxies in front to trust. */
  readonly trustProxy: number;
  /** Production refuses credentials over plain HTTP. */
  readonly production: boolean;
  readonly ownTls: boolean;
  readonly address: Pick<ServerAddress, 'urlUnder'>;
  readonly observe?: ObserveRequest | undefined;
  readonly newRequestId: () => string;
  /** Signals that a request begins, and that it is over: its handling and all that extends it have ended. */
  readonly begun: () => void;
  readonly over: () => void;
}

/** What a request's context needs of its route (web/router.ts). */
interface FoundRoute {
  readonly path: string;
  readonly any?: unknown;
  readonly changesNoKeys?: boolean;
  readonly takesSecrets?: boolean;
}

/** The address of a client that has none. */
const NO_ADDRESS = 'unknown';
/** Turns of the event loop within which the runtime says that a client has left: mostly the next. */
const LEAVING_TURNS_MAX = 10;

/** Called when a request begins. What it returns is called with the response. */
export type ObserveRequest = (context: RequestContext) => (response: Response) => void;

export class RequestContext {
  /** The request's call (LoggedCall in calls/call.ts); the last one of a batch. */
  call: object | undefined = undefined;
  /** The path of its route, with BASE_PATH; null if there is none. */
  readonly route: string | null;
  /** The tool or prompt that the request names, if it is there; of a batch the last one. */
  tool: string | undefined = undefined;
  /** The MCP client's `clientInfo`, as it was sent (mcp/client.ts). */
  clientInfo: unknown = undefined;
  /** The `_meta` of the MCP message, as it was sent. */
  meta: unknown = undefined;
  /** 0 until the body is read. */
  bodyBytes = 0;
  /** The id in the log, and in problem+json. It is unique unless a trusted proxy gave it. */
  readonly requestId: string;
  /** True if a trusted proxy gave the id. The response then repeats it. */
  readonly idIsGiven: boolean;
  /** True when the request came over this server's TLS, or over a trusted proxy's. */
  readonly secure: boolean;
  readonly observed: ReturnType<ObserveRequest> | undefined;
  /** The Origin header: the origin of the page that sent the request. */
  readonly origin: string | null;
  /** The request's headers, read once like its method, because each `request.headers` is a call into the runtime. */
  readonly headers: Headers;
  readonly method: string;
  readonly #server: RequestServer;
  readonly #connections: Connections;
  /** Whether a proxy asks about a request to another server, and so sends that server's Host. */
  readonly #isProxied: boolean;
  #credentials: Credentials | undefined = undefined;
  #publicUrl: string | undefined = undefined;
  /** The client's address, once it was asked for. */
  #address: string | undefined = undefined;
  /** The parts in progress: its handling, and what extends it. */
  #partsInProgress = 0;
  #holds = 0;
  #deferred: (() => void)[] | undefined = undefined;

  constructor(
    server: RequestServer,
    connections: Connections,
    readonly request: Request,
    found?: FoundRoute,
  ) {
    const { headers } = request;
    this.route = found?.path ?? null;
    this.#isProxied = found?.any !== undefined;
    this.#server = server;
    this.#connections = connections;
    this.headers = headers;
    this.method = request.method;
    this.origin = headers.get('origin');
    const { trustProxy, ownTls } = server;
    const given = trustProxy > 0 ? forwardedRequestId(headers) : null;
    this.idIsGiven = given !== null;
    this.requestId = given ?? server.newRequestId();
    this.secure = ownTls || (trustProxy > 0 && forwardedProto(headers, trustProxy) === 'https');
    if (this.#mayChangeKeys(found)) this.clientAddress();
    this.observed = server.observe?.(this);
    this.beginPart();
  }

  /** Returns the URL of this server under the name that the request used, without a slash at the end. */
  get publicUrl(): string {
    const { address } = this.#server;
    this.#publicUrl ??= address.urlUnder(this.#isProxied ? null : this.host, this.secure);
    return this.#publicUrl;
  }

  /** Returns the host that the client named. Null if it sent none over HTTP/1.0, which no browser does. */
  get host(): string | null {
    return this.headers.get('host') ?? URL.parse(this.request.url)?.host ?? null;
  }

  /** Returns false on plain HTTP in production: most routes then refuse requests with credentials (web/router.ts). */
  get acceptsCredentials(): boolean {
    return this.secure || !this.#server.production;
  }

  get credentials(): Credentials {
    this.#credentials ??= readCredentials(this.headers);
    return this.#credentials;
  }

  /** Returns the client's address, by which budgets count. Call it late: it costs a system call on Bun. */
  clientAddress(): string {
    this.#address ??= this.#findAddress();
    return this.#address;
  }

  /** Reads and keeps what a call may ask for after the response, when the runtime has let the request go. */
  readAhead(): void {
    this.clientAddress();
    void this.publicUrl;
  }

  #findAddress(): string {
    const { trustProxy } = this.#server;
    const forwarded = trustProxy > 0 ? forwardedFor(this.headers, trustProxy) : null;
    return forwarded ?? this.#connections.address(this.request) ?? NO_ADDRESS;
  }

  /** Returns whether the client was asked for its address, and had none: it has hung up, or there is no connection. */
  get lacksAddress(): boolean {
    return this.#address === NO_ADDRESS;
  }

  /** Resolves whether the client reset its connection before it was asked for its address. */
  async hasLeft(): Promise<boolean> {
    if (this.clientAddress() !== NO_ADDRESS) return false;
    const { signal } = this.request;
    for (let turns = 0; turns < LEAVING_TURNS_MAX && !signal.aborted; turns += 1) await nextTurn();
    return signal.aborted;
  }

  /**
   * Returns whether the address is needed while the client is there: whoever hangs up and changes a key would leave none in
   * the trail. Keys are changed with user tokens, and with secrets in bodies, whatever else is in the headers. Calls with a
   * key alone, which are the many, don't pay for it, nor do routes of tools for keys; the first use of a new secret, all that
   * these change, asks `hasLeft`.
   */
  #mayChangeKeys(found: FoundRoute | undefined): boolean {
    if (found?.changesNoKeys) return false;
    const { xApiKey, bearer } = this.credentials;
    return found?.takesSecrets === true || (bearer === null ? xApiKey === null : bearer.startsWith(JWT_BEGINS));
  }

  get lacksHost(): boolean {
    return this.#connections.lacksHost?.(this.request) ?? false;
  }

  get isTooLate(): boolean {
    return this.#connections.isClosed?.() ?? false;
  }

  /** Disables the connection's idle timeout (true), until each such call is matched by one with `false`. */
  holdOpen(hold: boolean): void {
    this.#holds += hold ? 1 : -1;
    if (this.#holds === (hold ? 1 : 0)) this.#connections.holdOpen(this.request, hold);
  }

  /** Runs `release` once, when the request is over: its handling and all that extends it have ended. */
  defer(release: () => void): void {
    this.#deferred ??= [];
    this.#deferred.push(release);
  }

  /** Begins a part of the request, like a body that is sent in pieces. The request is over when all its parts have ended. */
  beginPart(): void {
    if (this.#partsInProgress === 0) this.#server.begun();
    this.#partsInProgress += 1;
  }

  endPart(): void {
    this.#partsInProgress -= 1;
    if (this.#partsInProgress > 0) return;
    for (const release of this.#deferred ?? []) release();
    this.#deferred = undefined;
    this.#server.over();
  }
}

/** Below the idle timeout of connections, 75 s (main.ts). */
const QUIET_CALL_MS_MAX = 60_000;

/** Disables the connection's idle timeout until the result is there, if `timeoutMs` comes near it. */
export function holdingOpen<T>(context: RequestContext, timeoutMs: number, result: Awaitable<T>): Awaitable<T> {
  if (!isPromise(result) || timeoutMs <= QUIET_CALL_MS_MAX) return result;
  context.holdOpen(true);
  return result.finally(() => context.holdOpen(false));
}

/** The credentials as they were sent, before anything verified them. A missing or empty one is null. */
export interface Credentials {
  readonly xApiKey: string | null;
  /** What follows `Bearer` and spaces in Authorization; another scheme counts as absent. */
  readonly bearer: string | null;
  /** `_meta.api_key` of the body. */
  readonly metaApiKey: string | null;
  /** Authorization holds what looks like a credential, without `Bearer` before it. */
  readonly lacksScheme?: true;
}

/** How a JWT begins (isJwtShaped in keys/record.ts). */
const JWT_BEGINS = 'e';
// RFC 9110 §11.1, §11.4: the scheme's name is case-insensitive. All that follows the spaces is the credential, even if
// it contains spaces.
const BEARER = /^Bearer +(?=[^ ])/i;
/** A key or token alone (token68, RFC 9110 §11.2), longer than any scheme's name. */
const CREDENTIAL_ALONE = /^[\w.~+/-]{24,}=*$/;

/** Reads the credentials in the headers. `metaApiKey`, which is in the body, stays null. */
function readCredentials(headers: Headers): Credentials {
  const authorization = headers.get('authorization');
  const xApiKey = headers.get('x-api-key') || null;
  const metaApiKey = null;
  if (authorization === null) return { xApiKey, bearer: null, metaApiKey };
  const scheme = BEARER.exec(authorization);
  if (scheme !== null) return { xApiKey, bearer: authorization.slice(scheme[0].length), metaApiKey };
  return { xApiKey, bearer: null, metaApiKey, ...(CREDENTIAL_ALONE.test(authorization) && { lacksScheme: true }) };
}

/** Returns the credentials with the key in the body, if there is one. */
export const withMetaApiKey = (credentials: Credentials, metaApiKey: string | null): Credentials =>
  metaApiKey === null ? credentials : { ...credentials, metaApiKey };

export function apiKeyInMeta(meta: unknown): string | null {
  const key = isObject(meta) ? meta.api_key : null;
  return typeof key === 'string' && key !== '' ? key : null;
}

export const carriesCredential = (credentials: Credentials): boolean =>
  credentials.xApiKey !== null || credentials.bearer !== null || credentials.metaApiKey !== null;

// What the trusted proxies in front say about a request. Each proxy appends one entry to a list, so the outermost of n
// proxies wrote the n-th from the end. Earlier entries came with the request and may be forged.

/** Returns the client's protocol. Of a list shorter than the chain of proxies the first counts: a proxy may replace it. */
function forwardedProto(headers: Headers, proxies: number): string | undefined {
  const entries = entriesOf(headers.get('x-forwarded-proto'));
  return (entries.at(-proxies) ?? entries[0])?.toLowerCase();
}

/** Returns the address that the outermost proxy saw, without the port that some proxies add. */
function forwardedFor(headers: Headers, proxies: number): string | null {
  const address = entriesOf(headers.get('x-forwarded-for')).at(-proxies);
  if (!address || address.length > ADDRESS_CHARS_MAX) return null;
  const [, ipv4, ipv6] = WITH_PORT.exec(address) ?? [];
  return ipv4 ?? ipv6 ?? address;
}

/**
 * The longest address that budgets, key events and the log keep. If TRUST_PROXY is too high, it may be any text, but none so
 * long as a hash, which no line may have.
 */
const ADDRESS_CHARS_MAX = 63;

/** Returns the request id that a proxy set; null if it is missing, unfit for a log, or contains a key. */
function forwardedRequestId(headers: Headers): string | null {
  const id = headers.get('x-request-id');
  return id !== null && REQUEST_ID.test(id) && redactKeys(id) === id ? id : null;
}

const REQUEST_ID = /^[\w.-]{1,128}$/;

/** Matches `192.0.2.7:50123`, `[2001:db8::7]:50123`, and the brackets alone. */
const WITH_PORT = /^(?:([\d.]+):\d+|\[([^\]]+)\](?::\d+)?)$/;

const entriesOf = (list: string | null): string[] => list?.split(',').map((entry) => entry.trim()) ?? [];
