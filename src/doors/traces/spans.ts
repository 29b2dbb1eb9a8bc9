// Makes spans of calls, by what the core knows when they end: of HTTP by OpenTelemetry's conventions for HTTP, of MCP by those
// for MCP (v0.1.0). A request without a good credential makes none, so strangers can't fill anybody's store.

import type { Observer, Transport } from '../../api/observer.ts';
import { type Call, callIn, headerTrace, metaTrace, type RequestCaller, type Trace } from '../../calls/call.ts';
import type { Identity } from '../../calls/identify.ts';
import type { Operation } from '../../calls/operation.ts';
import { type Awaitable, chain, isPromise } from '../../ground/result.ts';
import { clientText } from '../../mcp/client.ts';
import { ALL_VERSIONS } from '../../mcp/era.ts';
import { apiKeyIn, type RequestMessage } from '../../mcp/message.ts';
import type { Peer, Reply } from '../../mcp/server.ts';
import type { RequestContext } from '../../web/context.ts';
import { codeOf } from '../../web/problem-response.ts';
import type { Span } from './encoding.ts';
import type { TraceSettings } from './settings.ts';
import { type Begun, createTracer, type Ended, type TracesOptions } from './tracer.ts';

interface CallSpan {
  readonly begun: Begun;
  /** Who brought a good credential that no guard demands. */
  readonly identity?: Identity | undefined;
  /** The caller's address, read while it is connected. */
  readonly address?: string | undefined;
}

/** The trace that a call's tool passes on. It keeps the span for its end, hidden from the tool. */
class SpanTrace implements Trace {
  readonly traceId: string;
  readonly parentId: string;
  readonly sampled = true;
  declare readonly state?: string;
  readonly #span: CallSpan;

  constructor(span: CallSpan) {
    const { traceId, spanId, parent } = span.begun;
    this.#span = span;
    this.traceId = traceId;
    this.parentId = spanId;
    if (parent?.state !== undefined) this.state = parent.state;
  }

  static spanOf({ trace }: RequestCaller): CallSpan | undefined {
    return trace instanceof SpanTrace ? trace.#span : undefined;
  }
}

/** A call, with what its guards may have added. */
type AnyCall = Call & { readonly auth?: { readonly keyId?: string } };

export function createSpans(settings: TraceSettings, core: TracesOptions, add: (span: Span) => void): Observer {
  const {
    config: { basePath },
    identify,
    clock,
  } = core;
  const tracer = createTracer(settings, core, add);
  const toolsPath = `${basePath}/tools/`;
  const askedPaths: readonly (string | null)[] = [`${basePath}/verify`, `${basePath}/introspect`];

  /** Begins the span of a call before it runs: its tool passes it on as the parent. */
  function beginCall({ credential }: Operation, caller: RequestCaller, isHttp: boolean): Awaitable<void> {
    const begun = tracer.begin(caller.trace);
    if (begun === undefined) return;
    const address = isHttp ? caller.clientAddress() : undefined; // read now: a client that has left has none
    const put = (identity?: Identity): void => {
      caller.trace = new SpanTrace({ begun, address, identity });
    };
    if (credential !== null) return put(); // its guard looks
    return chain(identify(caller), (identity) => (isGood(identity) ? put(identity) : undefined));
  }

  /** Begins the span of a service's question, which no tool passes on. */
  function beginAsked(context: RequestContext): CallSpan | undefined {
    const begun = tracer.begin(headerTrace(context.headers));
    return begun && { begun, address: context.clientAddress() };
  }

  /** Returns the span of a call that has ended, unless no good credential was found. */
  function spanOf(call: AnyCall): CallSpan | undefined {
    const span = SpanTrace.spanOf(call.caller);
    return span && (span.identity !== undefined || isAdmitted(call)) ? span : undefined;
  }

  /** Ends a list, a ping or an error, if its sender has a good credential. */
  async function endOther(
    startedMs: number,
    transport: Transport,
    request: RequestMessage,
    { sender }: Peer,
    reply: Reply,
  ) {
    const key = apiKeyIn(request.params);
    const { context } = sender;
    const begun = tracer.begin(metaTrace(request.params._meta) ?? headerTrace(context.headers));
    if (begun === undefined) return;
    const times = tracer.timesSince(startedMs); // now: nobody has waited for what the sender's identification takes
    const identity = await sender.identify(key);
    if (isGood(identity)) tracer.end(begun, times, ofMcp(transport, request, context, reply, keyIdOf(identity)));
  }

  return {
    request(context) {
      const { route } = context;
      const isAsked = askedPaths.includes(route);
      if (!isAsked && !route?.startsWith(toolsPath)) return NOTHING;
      const startedMs = clock.monotonicMs();
      const asked = isAsked ? beginAsked(context) : undefined;
      return (response) => {
        const call = callIn(context) as AnyCall | undefined; // which each of these routes makes
        if (call === undefined) return;
        const span = asked === undefined || !isAdmitted(call) ? spanOf(call) : asked;
        if (span === undefined) return;
        tracer.end(span.begun, tracer.timesSince(startedMs), ofHttp(toolsPath, span, context, call, response));
      };
    },

    run: (transport, run) => (operation, input, call, canceller) => {
      const beginning = beginCall(operation, call.caller, transport === 'rest');
      const go = () => run(operation, input, call, canceller);
      return isPromise(beginning) ? beginning.then(go) : go();
    },

    mcp: (transport, mcp) => (request, peer) => {
      const startedMs = clock.monotonicMs();
      const reply = mcp(request, peer);
      function ended(reply: Reply): Reply {
        const { call } = reply;
        if (call === undefined) {
          void endOther(startedMs, transport, request, peer, reply).catch(NOTHING); // an outage: nobody knows whose it is
          return reply;
        }
        const span = spanOf(call);
        const keyId = span?.identity && keyIdOf(span.identity);
        if (span === undefined) return reply;
        const described = ofMcp(transport, request, peer.sender.context, reply, keyId);
        tracer.end(span.begun, tracer.timesSince(startedMs), described);
        return reply;
      }
      return isPromise(reply) ? reply.then(ended) : ended(reply);
    },
  };
}

const NOTHING = () => {};

const REFUSED: readonly (string | undefined)[] = ['invalid_api_key', 'invalid_token'];

/** Returns whether the guards of a call that has ended found a good credential, which nothing refused later. */
const isAdmitted = (call: AnyCall): boolean => call.auth !== undefined && !REFUSED.includes(call.response.code);

const isGood = ({ user, key }: Identity): boolean => user?.ok === true || key?.ok === true;

const keyIdOf = ({ key }: Identity): string | undefined => (key?.ok ? key.value.keyId : undefined);

/** The methods of RFC 9110 and PATCH; others are not named. */
const METHODS: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH'];

/** Describes the span of an HTTP request that has ended. */
function ofHttp(
  toolsPath: string,
  { identity, address }: CallSpan,
  { request, route, secure }: RequestContext,
  call: AnyCall,
  response: Response,
): Ended {
  const { status } = response;
  const isKnown = METHODS.includes(request.method);
  const template = route?.startsWith(toolsPath) ? `${toolsPath}{tool}` : (route ?? '');
  const isError = status >= 500;
  return {
    name: `${isKnown ? request.method : 'HTTP'} ${template}`,
    isError,
    attributes: {
      'http.request.method': isKnown ? request.method : '_OTHER',
      'http.route': template,
      'http.response.status_code': status,
      'url.path': route ?? '',
      'url.scheme': secure ? 'https' : 'http',
      'client.address': address === 'unknown' ? undefined : address,
      'error.type': isError ? String(status) : undefined,
      'mcp_keys.error': codeOf(response) ?? call.response.code,
      'mcp_keys.key.id': call.auth?.keyId ?? (identity && keyIdOf(identity)),
      'mcp_keys.cost': call.cost,
    },
  };
}

/** Describes the span of an MCP request that has ended. A method, tool or prompt that isn't there is not named. */
function ofMcp(
  transport: Transport,
  request: RequestMessage,
  context: RequestContext,
  { operation, call, errorCode, isError, isUnknown }: Reply,
  keyId: string | undefined,
): Ended {
  const method = isUnknown ? undefined : request.method;
  const name = method === 'tools/call' || method === 'prompts/get' ? (operation?.name ?? call?.tool) : undefined;
  const errorType = errorCode !== undefined ? String(errorCode) : isError ? 'tool_error' : undefined;
  return {
    name: [method ?? 'MCP', name].filter(Boolean).join(' '),
    isError: errorType !== undefined,
    attributes: {
      'mcp.method.name': method ?? '_OTHER',
      'gen_ai.tool.name': method === 'tools/call' ? name : undefined,
      'gen_ai.prompt.name': method === 'prompts/get' ? name : undefined,
      'mcp.protocol.version': versionOf(transport, request, context),
      'error.type': errorType,
      'mcp_keys.error': call?.response.code,
      'mcp_keys.key.id': (call as AnyCall | undefined)?.auth?.keyId ?? keyId,
      'mcp_keys.cost': call?.cost ?? 1,
      'mcp_keys.client': clientText(context.clientInfo),
    },
  };
}

/** Returns the revision that a request names, if there is such a one. */
function versionOf(transport: Transport, { params }: RequestMessage, { headers }: RequestContext): string | undefined {
  if (transport === 'sse') return '2024-11-05';
  const named = [params._meta?.['io.modelcontextprotocol/protocolVersion'], params.protocolVersion];
  return ALL_VERSIONS.find((version) => named.includes(version) || headers.get('mcp-protocol-version') === version);
}
