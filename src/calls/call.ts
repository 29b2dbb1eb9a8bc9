// The context of one call of a tool or prompt, in three parts: who calls, the proof of the credential, and what the
// response says beside the result. And how a request becomes a call.

import type { Problem } from '../ground/problem.ts';
import type { RateLimitStates } from '../ground/rate-limit.ts';
import type { Awaitable, Result } from '../ground/result.ts';
import { isObject, type JsonObject } from '../ground/text.ts';
import type { Caller } from '../keys/actor.ts';
import type { KeyIdentity, VerifiedKey } from '../keys/verify.ts';
import { type Credentials, type RequestContext, withMetaApiKey } from '../web/context.ts';
import { type Ask, type Asking, askThrough } from './ask.ts';

/** What a message adds to a request. By default its trace is that of the request, and its servers are this one. */
interface CallExtras
  extends Partial<Pick<RequestCaller, 'trace' | 'lookupKeyId' | 'resources'>>,
    Partial<Pick<Call, 'clientCapabilities' | 'asking' | 'audience' | 'cost'>> {
  readonly operation?: { readonly name: string; readonly initialLimits: RateLimitStates; readonly cost?: number };
  readonly progress?: Progress | undefined;
}

/** Who sent a request, and with which credentials. */
export class RequestCaller implements Caller {
  readonly requestId: string;
  /** The position in a trace, for the tool to pass on: the caller's, if it sent one, unless an observer has its own. */
  trace: Trace | undefined;
  /** The key whose budget of unknown keys counts instead of the client address's. */
  readonly lookupKeyId: string | undefined;
  /** The servers that the key is presented for, as sent; none: this one. */
  readonly resources: readonly string[] | undefined;
  readonly #context: RequestContext;

  constructor(
    context: RequestContext,
    readonly credentials: Credentials,
    extras?: CallExtras,
  ) {
    this.#context = context;
    this.requestId = context.requestId;
    this.trace = extras?.trace ?? metaTrace(context.meta) ?? headerTrace(context.headers);
    this.lookupKeyId = extras?.lookupKeyId;
    this.resources = extras?.resources;
  }

  get traceId(): string | undefined {
    return this.trace?.traceId;
  }

  /** Returns the URL of this server under the name that the request used. */
  get publicUrl(): string {
    return this.#context.publicUrl;
  }

  /** Returns the client's address, by which budgets count. It costs a system call on Bun. */
  clientAddress(): string {
    return this.#context.clientAddress();
  }

  hasLeft(): Promise<boolean> {
    return this.#context.hasLeft();
  }
}

/**
 * Verifies the credential of a call again, without counting a use. Returns when that began, in monotonic milliseconds:
 * it has not seen later changes. Throws a StoreOutage.
 */
export type Revalidate = (call: Call) => Awaitable<Result<number, Problem>>;

const NO_SCOPES: readonly string[] = [];

/** The latest proof that the credentials of a call are good. */
export class CallProof {
  /** When it began, monotonic; infinity if the call needs no credential. */
  atMs = Number.POSITIVE_INFINITY;
  /** The API key, as of that proof. Null: there is none. */
  key: VerifiedKey | null = null;
  /** The scopes that guards have demanded of the key. */
  demanded: readonly string[] = NO_SCOPES;
  readonly #revalidations: Revalidate[] = [];

  /** Adds a credential that was verified, and how to revalidate it. */
  add(atMs: number, revalidate: Revalidate): void {
    this.atMs = Math.min(this.atMs, atMs);
    this.#revalidations.push(revalidate); // one, unless an operator's own guard demands a key and a user token
  }

  /** Notes scopes that the key must have still when the result is sent. */
  demand(scopes: readonly string[]): void {
    this.demanded = this.demanded === NO_SCOPES ? scopes : [...this.demanded, ...scopes];
  }

  /** Revalidates the credentials. Resolves with the problem if one is no longer good. Throws a StoreOutage. */
  async revalidate(call: Call): Promise<Problem | undefined> {
    let atMs = Number.POSITIVE_INFINITY;
    for (const revalidate of this.#revalidations) {
      const revalidated = await revalidate(call);
      if (!revalidated.ok) return revalidated.error;
      atMs = Math.min(atMs, revalidated.value);
    }
    this.atMs = atMs;
    return undefined;
  }
}

/** Whom a credential names: a known key, be it good or ended, or a user. */
export interface Principal {
  readonly keyId?: string;
  readonly keyName?: string | undefined;
  readonly subject: string | undefined;
  readonly parentId?: string | null | undefined;
  readonly actor?: string;
  /** The rule that let a workload's token in as the key. */
  readonly rule?: { readonly id: string; readonly workload: object } | undefined;
}

/** What the response to a call says beside the result. */
export interface CallResponse {
  /** The limits in its headers: initially full, then as the guards decided. */
  limits: RateLimitStates;
  /** What the tool's widget gets, in `_meta` of a result over MCP, hidden from the model. */
  forWidget: JsonObject | undefined;
  /** The public code of the problem that the call ended with, for the access log. */
  code: string | undefined;
  /** Who was refused, if that is known; for the access log. */
  refused: Principal | undefined;
  /** Who sent the request, if that was found out. The response may leave before the guards have decided, or none may run. */
  sender?: Principal | undefined;
}

/** Who gets the result: a program or, over MCP, a model whose client may show the tool's widget. */
type Audience = 'program' | 'model' | 'model_with_widget';

/** Tells the client how far a call is. */
export type Progress = (progress: number, total?: number, message?: string) => void;

const NOTHING = () => {};

const NO_CAPABILITIES = {};

/** A call of a tool or prompt. A transport creates it, guards extend it, and the tool gets it as the context. */
export class Call {
  readonly caller: RequestCaller;
  readonly proof = new CallProof();
  readonly response: CallResponse;
  /** The name of the tool or prompt. */
  readonly tool: string;
  progress: Progress;
  /** The capabilities that the client declared (MCP 2026-07-28). */
  readonly clientCapabilities: JsonObject;
  /** How the tool asks questions; without it none can be asked. */
  readonly asking: Asking | undefined;
  /** A model by default: a transport that doesn't say must not show a secret to one. */
  readonly audience: Audience;
  /** The units that it spends of each limit. */
  readonly cost: number;
  #lifetime: AbortController | undefined;
  readonly #context: RequestContext;

  constructor(context: RequestContext, credentials: Credentials, extras?: CallExtras) {
    this.#context = context;
    this.caller = new RequestCaller(context, credentials, extras);
    const limits = extras?.operation?.initialLimits ?? [];
    this.response = { limits, forWidget: undefined, code: undefined, refused: undefined };
    this.tool = extras?.operation?.name ?? '';
    this.cost = extras?.cost ?? extras?.operation?.cost ?? 1;
    this.progress = extras?.progress ?? NOTHING;
    this.clientCapabilities = extras?.clientCapabilities ?? NO_CAPABILITIES;
    this.audience = extras?.audience ?? 'model';
    this.asking = extras?.asking;
  }

  get reportsProgress(): boolean {
    return this.progress !== NOTHING;
  }

  get isAborted(): boolean {
    return this.#lifetime?.signal.aborted ?? false;
  }

  abort(reason: unknown): void {
    this.#lifetime ??= new AbortController();
    this.#lifetime.abort(reason);
  }

  /** Keeps its request in progress until a matching `end`. */
  begin(): void {
    this.#context.beginPart();
  }

  end(): void {
    this.#context.endPart();
  }

  // What tools use of the parts (src/tools/README.md).

  get requestId(): string {
    return this.caller.requestId;
  }

  get trace(): Trace | undefined {
    return this.caller.trace;
  }

  get clientAddress(): () => string {
    return () => this.caller.clientAddress();
  }

  get forWidget(): JsonObject | undefined {
    return this.response.forWidget;
  }

  set forWidget(fields: JsonObject | undefined) {
    this.response.forWidget = fields;
  }

  /** Returns what is left of the limits that guards have counted. */
  get limits(): RateLimitStates {
    return this.response.limits;
  }

  /** Asks the person behind this call. */
  get ask(): Ask {
    return askThrough(this.asking);
  }

  /** Returns the signal that aborts when the call is cancelled or out of time. Created on first use: few tools use it. */
  get signal(): AbortSignal {
    this.#lifetime ??= new AbortController();
    return this.#lifetime.signal;
  }
}

/** Creates the call of a request. `metaApiKey` is the key in the body, if any. */
export function callOf(context: RequestContext, metaApiKey: string | null, extras?: CallExtras): Call {
  const call = new Call(context, withMetaApiKey(context.credentials, metaApiKey), extras);
  context.call = call satisfies LoggedCall;
  return call;
}

/** Returns the caller of a request without creating a call. `metaApiKey` is the key in the body, if any. */
export const callerOf = (context: RequestContext, metaApiKey: string | null = null): RequestCaller =>
  new RequestCaller(context, withMetaApiKey(context.credentials, metaApiKey));

/** A call with the identity that its guards found, if any; of a request that makes none, only who sent it. */
export interface LoggedCall extends Partial<Pick<Call, 'caller' | 'proof' | 'tool' | 'cost'>> {
  readonly response: Partial<CallResponse>;
  readonly auth?: Partial<KeyIdentity> & { readonly actor?: string };
}

/** Returns the call of a request, as `callOf` or `Sender` has put it there. */
export const callIn = ({ call }: RequestContext) => call as LoggedCall | undefined;

export function withoutMeta(input: JsonObject): JsonObject {
  if (input._meta === undefined) return input;
  const { _meta: _, ...fields } = input;
  return fields;
}

/** The `traceparent` and `tracestate` of W3C Trace Context, level 1. A malformed one is ignored (§3.2). */
export interface Trace {
  /** 32 lowercase hex digits. */
  readonly traceId: string;
  /** 16 lowercase hex digits: the caller's span. */
  readonly parentId: string;
  readonly sampled: boolean;
  /** What tracing systems add, to be passed on as it is. */
  readonly state?: string;
}

/** Version, trace id, parent id, flags; versions after 00 may add parts. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const TRACEPARENT_CHARS_MAX = 256;
/** What must be passed on (§3.3.1.5). Tabs may stand around its members, too (§3.3.1.1). */
const TRACESTATE = /^[\t\x20-\x7e]{1,512}$/;
const SAMPLED = 1;

function parseTrace(text: unknown, tracestate: () => unknown): Trace | undefined {
  if (typeof text !== 'string' || text.length > TRACEPARENT_CHARS_MAX) return undefined;
  const [, version, traceId, parentId, flags = '', more] = TRACEPARENT.exec(text) ?? [];
  if (traceId === undefined || parentId === undefined || (version === '00' && more !== undefined)) return undefined;
  const trace = { traceId, parentId, sampled: (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED };
  const state = tracestate();
  return typeof state === 'string' && TRACESTATE.test(state) ? { ...trace, state } : trace;
}

export const headerTrace = (headers: Headers): Trace | undefined =>
  parseTrace(headers.get('traceparent'), () => headers.get('tracestate'));

/** Returns the trace in a `_meta` value of any shape (MCP, SEP-414). */
export const metaTrace = (meta: unknown): Trace | undefined =>
  isObject(meta) ? parseTrace(meta.traceparent, () => meta.tracestate) : undefined;
