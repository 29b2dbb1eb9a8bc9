// What the server does for an MCP request: one message in, one reply out, whatever the revision. The transports
// (mcp/streamable-http.ts, mcp/sse.ts) only write the reply.

import type { Asking } from '../calls/ask.ts';
import { type Call, callOf, metaTrace, withoutMeta } from '../calls/call.ts';
import type { Sender } from '../calls/identify.ts';
import type { Operation, ToolResult } from '../calls/operation.ts';
import type { AbortSource, Run } from '../calls/run.ts';
import type { Problem } from '../ground/problem.ts';
import { type Awaitable, chain } from '../ground/result.ts';
import { carriesCredential, holdingOpen } from '../web/context.ts';
import { challengeFor, type SignIn } from '../web/problem-response.ts';
import { askingOf, type RequestStates, showsWidgets } from './client.ts';
import {
  apiKeyIn,
  CODES,
  eraMembers,
  errorText,
  type Id,
  progressReporter,
  progressTokenOf,
  type RequestMessage,
  type RpcError,
  resultText,
} from './message.ts';
import { createMethods, type MethodsOptions, type Outcome, type PlannedCall, type Requester } from './methods.ts';
import { callResultText } from './results.ts';

/** What a transport knows of who sent a request, and how it responds. */
export interface Peer extends Requester {
  /** Where OAuth clients sign in; null: none is sent there. */
  readonly signIn: SignIn | null;
  /**
   * Called when a call begins that is not answered by a challenge. From now on its progress is sent with the returned
   * function, and only the text of its reply counts.
   */
  readonly begin?: () => (message: string) => void;
  readonly canceller?: AbortSource | undefined;
}

/** A request, and who sent it. */
export interface Sent {
  readonly request: RequestMessage;
  readonly peer: Peer;
}

export interface Reply {
  readonly text: string;
  /** The code of a JSON-RPC error. */
  readonly errorCode?: number;
  /** The call that was made; its rate limit is for the headers of an HTTP response that is the reply. */
  readonly call?: Call;
  /** The same, if it succeeded. */
  readonly success?: Call | undefined;
  /** Of such a response; 200 unless given. */
  readonly status?: 400 | 404;
  /** In place of the text, in such a response. */
  readonly challenge?: { readonly problem: Problem; readonly header: string };
}

export type Mcp = (request: RequestMessage, peer: Peer) => Awaitable<Reply>;

export interface McpOptions extends MethodsOptions {
  readonly requestStates: RequestStates;
  readonly run: Run;
}

/** Lists and resources change only when the server is restarted. */
const CACHE_MS = 3_600_000;

const NOT_FOUND: RpcError = { code: CODES.methodNotFound, message: 'Method not found' };

export function createMcp({ requestStates, run, ...options }: McpOptions): Mcp {
  const methods = new Map(Object.entries(createMethods(options)));

  function planned(request: RequestMessage, { operation, given }: PlannedCall, peer: Peer): Awaitable<Reply> {
    const { id, params } = request;
    const { sender, era, capabilities, signIn } = peer;
    const isAsking = era === 'modern' && operation.kind !== 'completion';
    const asking = isAsking ? askingOf(requestStates, params, capabilities) : NOBODY;
    if (!asking.ok) return errorReply(id, { code: CODES.invalidParams, message: asking.error });
    const key = apiKeyIn(params);
    const isChallenged = signIn !== null && lacksCredential(operation, signIn, sender, key);
    return chain(isChallenged, start, { request, operation, given, peer, key, asking: asking.value });
  }

  function start(isChallenged: boolean, planned: Planned): Awaitable<Reply> {
    const { request, operation, given, peer, key, asking } = planned;
    const { sender, capabilities, begin, canceller } = peer;
    const { context } = sender;
    const { _meta: meta } = request.params;
    const send = isChallenged ? undefined : begin?.();
    const token = progressTokenOf(meta);
    const progress = send && token !== undefined ? progressReporter(token, send) : undefined;
    const call = callOf(context, key, {
      operation,
      progress: progress?.report,
      clientCapabilities: capabilities,
      trace: metaTrace(meta) ?? metaTrace(given._meta),
      asking,
      audience: showsWidgets(capabilities) ? 'model_with_widget' : 'model',
    });
    const running = run(operation, withoutMeta(given), call, canceller);
    const result = begin === undefined ? holdingOpen(context, operation.timeoutMs, running) : running;
    return chain(result, replyTo, { planned, call, progress, isChallenged });
  }

  return (request, peer) => {
    const { id, method, params } = request;
    const { era } = peer;
    const found = methods.get(method);
    if (found === undefined || (found.only ?? era) !== era) {
      return errorReply(id, NOT_FOUND, era === 'modern' ? 404 : undefined);
    }
    return chain(found.run(params, peer), decided, { request, peer });
  };

  function decided(outcome: Outcome, { request, peer }: Sent): Awaitable<Reply> {
    const { id } = request;
    if ('operation' in outcome) return planned(request, outcome, peer);
    if ('error' in outcome) return errorReply(id, outcome.error, outcome.status);
    const { members, cacheScope } = outcome;
    const cache = peer.era === 'modern' && cacheScope ? `"ttlMs":${CACHE_MS},"cacheScope":"${cacheScope}",` : '';
    return { text: resultText(id, eraMembers(peer.era) + cache + members) };
  }
}

interface Planned extends PlannedCall, Sent {
  readonly key: string | null;
  readonly asking: Asking | undefined;
}

interface Made {
  readonly planned: Planned;
  readonly call: Call;
  readonly progress: { stop(): void } | undefined;
  readonly isChallenged: boolean;
}

function replyTo(result: ToolResult, { planned, call, progress, isChallenged }: Made): Reply {
  const { request, operation, peer } = planned;
  progress?.stop();
  const text = callResultText({ id: request.id, era: peer.era, operation, call }, result);
  if (result.ok) return { text, call, success: call };
  const header = isChallenged ? challengeFor(result.error, peer.signIn) : null;
  return header === null ? { text, call } : { text, call, challenge: { problem: result.error, header } };
}

const NOBODY = { ok: true, value: undefined } as const;

const errorReply = (id: Id, error: RpcError, status?: 400 | 404): Reply => ({
  text: errorText(id, error),
  errorCode: error.code,
  ...(status && { status }),
});

/** Whether the call has no credential of the kind that its client gets by signing in. */
function lacksCredential(
  { credential }: Operation,
  { handsOutKeys }: SignIn,
  sender: Sender,
  metaKey: string | null,
): Awaitable<boolean> {
  if (credential !== (handsOutKeys ? 'api_key' : 'user_jwt')) return false;
  if (handsOutKeys) return metaKey === null && !carriesCredential(sender.context.credentials);
  if (sender.context.credentials.bearer === null) return true;
  // A key in place of a user token is reported in-band: a client would send it again.
  return chain(sender.identify(metaKey), ({ user }) => user?.ok === false && user.error.code === 'invalid_token');
}
