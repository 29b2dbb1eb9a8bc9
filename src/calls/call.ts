// The context of one call of a tool or prompt, and how a request becomes one.

import type { Problem } from '../ground/problem.ts';
import type { RateLimitStates } from '../ground/rate-limit.ts';
import type { Awaitable, Result } from '../ground/result.ts';
import { isObject, type JsonObject } from '../ground/text.ts';
import type { Caller, RuleOfToken } from '../keys/actor.ts';
import type { Holder } from '../keys/verify.ts';
import { type Credentials, type Refused, type RequestContext, withMetaApiKey } from '../web/context.ts';
import { type Ask, type Asking, askThrough } from './ask.ts';

/** A call's caller and credentials. */
export interface CredentialedCall extends Caller {
  readonly credentials: Credentials;
}

/** Who gets the result: a program or, over MCP, a model whose client may show the tool's widget. */
type Audience = 'program' | 'model' | 'model_with_widget';

/** Tells the client how far a call is. */
export type Progress = (progress: number, total?: number, message?: string) => void;

interface CallExtras {
  readonly operation?: { readonly name: string; readonly initialLimits: RateLimitStates; readonly cost?: number };
  readonly progress?: Progress | undefined;
  /** The capabilities that the client declared (MCP 2026-07-28). */
  readonly clientCapabilities?: JsonObject;
  /** The trace that the message names; by default that of the request. */
  readonly trace?: Trace | undefined;
  /** How the tool asks questions; without it none can be asked. */
  readonly asking?: Asking | undefined;
  readonly audience?: Audience;
  /** The key whose budget of unknown keys counts instead of the client address's. */
  readonly lookupKeyId?: string;
  /** The units that the call spends of each limit; 1 by default. */
  readonly cost?: number;
  /** The servers that the key is presented for, as sent; by default this one. */
  readonly resources?: readonly string[] | undefined;
}

/**
 * Verifies the credential of a call again, without counting a use. Returns when that began, in monotonic milliseconds:
 * it has not seen later changes. Throws a StoreOutage.
 */
export type Revalidate = (call: Call) => Awaitable<Result<number, Problem>>;

const NOTHING = () => {};

const NO_CAPABILITIES = {};

/** A call of a tool or prompt. A transport creates it, guards extend it, and the tool gets it as the context. */
export class Call {
  /** The name of the tool or prompt. */
  readonly tool: string;
  progress: Progress;
  readonly clientCapabilities: JsonObject;
  /** The position in a trace, for the tool to pass on: the caller's, if it sent one, unless an observer has its own. */
  trace: Trace | undefined;
  readonly asking: Asking | undefined;
  /** A model by default: a transport that doesn't say must not show a secret to one. */
  readonly audience: Audience;
  /** What the tool's widget gets beside the result, hidden from the model. Only for a `model_with_widget`. */
  forWidget: JsonObject | undefined = undefined;
  /** The limits in the response's headers: initially full, then as the guards decided. */
  limits: RateLimitStates;
  /** When the proof of its credential began, monotonic; infinity if it has none. */
  provedAtMs = Number.POSITIVE_INFINITY;
  /** The last millisecond of its API key, as of that proof. Null: the key doesn't expire, or there is no key. */
  keyEndsAtMs: number | null = null;
  /** Who was refused, if that is known; for the access log. */
  refused: Refused | undefined = undefined;
  /** The public code of the problem that it ended with, for the access log. */
  code: string | undefined = undefined;
  /** The units that it spends of each limit. */
  readonly cost: number;
  /** What counts the uses of its API key; null: there is no key. */
  holder: Holder | null = null;
  /** The hash of the parent key's secret, as of that proof. Null: the key has no parent. */
  parentHash: string | null = null;
  /** The rule that let its token in, as of that proof. Null: there is no token of another issuer. */
  rule: RuleOfToken | null = null;
  readonly lookupKeyId: string | undefined;
  readonly resources: readonly string[] | undefined;
  #revalidate: Revalidate | undefined = undefined;
  #lifetime: AbortController | undefined;
  readonly #request: RequestContext | undefined;

  constructor(
    readonly requestId: string,
    readonly credentials: Credentials,
    /** Returns the client's address, by which budgets count. It costs a system call on Bun. */
    readonly clientAddress: () => string,
    extras?: CallExtras,
    /** The HTTP request that made the call, if any. */
    request?: RequestContext,
  ) {
    this.#request = request;
    this.tool = extras?.operation?.name ?? '';
    this.limits = extras?.operation?.initialLimits ?? [];
    this.trace = extras?.trace ?? (request && headerTrace(request.headers));
    this.cost = extras?.cost ?? extras?.operation?.cost ?? 1;
    this.lookupKeyId = extras?.lookupKeyId;
    this.resources = extras?.resources;
    this.progress = extras?.progress ?? NOTHING;
    this.clientCapabilities = extras?.clientCapabilities ?? NO_CAPABILITIES;
    this.audience = extras?.audience ?? 'model';
    this.asking = extras?.asking;
  }

  /** Asks the person behind this call. */
  get ask(): Ask {
    return askThrough(this.asking);
  }

  get traceId(): string | undefined {
    return this.trace?.traceId;
  }

  /** Records that a credential of the call was verified, and how to revalidate it. */
  proved(atMs: number, revalidate: Revalidate): void {
    this.provedAtMs = Math.min(this.provedAtMs, atMs);
    this.#revalidate =
      this.#revalidate === undefined || this.#revalidate === revalidate
        ? revalidate
        : revalidateBoth(this.#revalidate, revalidate);
  }

  /** Revalidates its credentials. Resolves with the problem if one is no longer good. Throws a StoreOutage. */
  async revalidate(): Promise<Problem | undefined> {
    const revalidated = await this.#revalidate?.(this);
    if (revalidated?.ok) this.provedAtMs = revalidated.value;
    return revalidated?.ok === false ? revalidated.error : undefined;
  }

  get reportsProgress(): boolean {
    return this.progress !== NOTHING;
  }

  /** Returns the URL of this server under the name that the request used. */
  get publicUrl(): string | undefined {
    return this.#request?.publicUrl;
  }

  /**
   * Returns the signal that aborts when the call is cancelled or out of time. It is created on first use, because few
   * tools use it.
   */
  get signal(): AbortSignal {
    this.#lifetime ??= new AbortController();
    return this.#lifetime.signal;
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
    this.#request?.beginPart();
  }

  end(): void {
    this.#request?.endPart();
  }
}

/** Revalidates two credentials: an operator's own guard may demand a key and a user token. */
const revalidateBoth =
  (first: Revalidate, second: Revalidate): Revalidate =>
  async (call) => {
    const one = await first(call);
    if (!one.ok) return one;
    const other = await second(call);
    return other.ok ? { ok: true, value: Math.min(one.value, other.value) } : other;
  };

/** Creates the call of a request. `metaApiKey` is the key in the body, if any. */
export function callOf(context: RequestContext, metaApiKey: string | null, extras?: CallExtras): Call {
  const credentials = withMetaApiKey(context.credentials, metaApiKey);
  const call = new Call(context.requestId, credentials, () => context.clientAddress(), extras, context);
  context.call = call;
  return call;
}

/** Returns the caller of a request without creating a call. `metaApiKey` is the key in the body, if any. */
export const callerOf = (context: RequestContext, metaApiKey: string | null = null): CredentialedCall => ({
  credentials: withMetaApiKey(context.credentials, metaApiKey),
  requestId: context.requestId,
  get traceId() {
    return headerTrace(context.headers)?.traceId;
  },
  get publicUrl() {
    return context.publicUrl;
  },
  clientAddress: () => context.clientAddress(),
});

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
/** What must be passed on (§3.3.1.5). */
const TRACESTATE = /^[\x20-\x7e]{1,512}$/;
const SAMPLED = 1;

function parseTrace(text: unknown, tracestate: () => unknown): Trace | undefined {
  if (typeof text !== 'string' || text.length > TRACEPARENT_CHARS_MAX) return undefined;
  const [, version, traceId, parentId, flags = '', more] = TRACEPARENT.exec(text) ?? [];
  if (traceId === undefined || parentId === undefined || (version === '00' && more !== undefined)) return undefined;
  const trace = { traceId, parentId, sampled: (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED };
  const state = tracestate();
  return typeof state === 'string' && TRACESTATE.test(state) ? { ...trace, state } : trace;
}

/** Returns the trace in headers. */
export const headerTrace = (headers: Headers): Trace | undefined =>
  parseTrace(headers.get('traceparent'), () => headers.get('tracestate'));

/** Returns the trace in a `_meta` value of any shape (MCP, SEP-414). */
export const metaTrace = (meta: unknown): Trace | undefined =>
  isObject(meta) ? parseTrace(meta.traceparent, () => meta.tracestate) : undefined;
