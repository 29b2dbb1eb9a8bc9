// Handles an MCP request of any revision: one message in, one reply out. The transports (mcp/streamable-http.ts,
// doors/sse/sse.ts) only write the reply.

import { type Call, type CallResponse, callOf, metaTrace, withoutMeta } from '../calls/call.ts';
import { isEndedKey, type Sender } from '../calls/identify.ts';
import type { Operation, ToolResult } from '../calls/operation.ts';
import type { AbortSource, Run } from '../calls/run.ts';
import type { Problem } from '../ground/problem.ts';
import { type Awaitable, chain } from '../ground/result.ts';
import { carriesCredential, holdingOpen } from '../web/context.ts';
import { challengeFor } from '../web/problem-response.ts';
import { askingOf, showsWidgets } from './client.ts';
import {
  apiKeyIn,
  CODES,
  eraFields,
  errorText,
  progressReporter,
  progressTokenOf,
  type RequestMessage,
  type RpcError,
  resultText,
} from './message.ts';
import type { Failed, Method, Outcome, PlannedCall, Requester } from './methods.ts';
import type { RequestStates } from './request-states.ts';
import { callResultText } from './results.ts';

/** What a transport knows of a request's sender, and how it responds. */
export interface Peer extends Requester {
  /**
   * Signals that a call begins that won't be challenged. The returned function sends its progress; from now on only the
   * text of its reply counts.
   */
  readonly begin?: () => (message: string) => void;
  readonly canceller?: AbortSource | undefined;
  /** Why the transport refuses the request, which then isn't handled. */
  readonly refused?: Failed;
}

export interface Reply {
  readonly text: string;
  readonly errorCode?: number | undefined;
  /** Whether there is no method of the request's name. */
  readonly isUnknown?: boolean;
  readonly isError?: boolean;
  /** The tool or prompt that a refused request names, if it is there. */
  readonly operation?: Operation | undefined;
  /** The call that was made. If the reply is an HTTP response, its headers show the call's rate limit. */
  readonly call?: Call;
  /** The status of such a response; 200 by default. */
  readonly status?: 400 | 404;
  /** The problem for which such a response sends a challenge instead of the text. */
  readonly challenge?: Problem | undefined;
}

/** Handles a request, synchronously if nothing has to be awaited. */
export type Mcp = (request: RequestMessage, peer: Peer) => Awaitable<Reply>;

interface McpOptions {
  readonly methods: ReadonlyMap<string, Method>;
  /** Returns what the request calls; undefined if it calls nothing that is there. */
  readonly calledBy: (request: RequestMessage) => Operation | undefined;
  readonly requestStates: RequestStates;
  readonly run: Run;
}

/** Lists and resources change only when the server restarts, or in development reloads tools. */
const CACHE_MS = 3_600_000;

const NOT_FOUND: RpcError = { code: CODES.methodNotFound, message: 'Method not found' };

export function createMcp({ methods, calledBy, requestStates, run }: McpOptions): Mcp {
  /** Replies to a request that makes no call. */
  const refuse = (request: RequestMessage, { error, ...more }: Failed): Reply => ({
    text: errorText(request.id, error),
    errorCode: error.code,
    operation: calledBy(request),
    ...more,
  });

  function callFor(request: RequestMessage, planned: PlannedCall, peer: Peer): Awaitable<Reply> {
    const lacking = lacksCredential(planned.operation, peer.sender, apiKeyIn(request.params));
    return chain(lacking, (isChallenged) => callNow(request, planned, peer, isChallenged));
  }

  function callNow(request: RequestMessage, planned: PlannedCall, peer: Peer, isChallenged: boolean): Awaitable<Reply> {
    const { operation, given } = planned;
    const { sender, era, capabilities, begin, canceller } = peer;
    const isAsking = era === 'modern' && operation.kind !== 'completion';
    const asking = isAsking ? askingOf(requestStates, request.params, capabilities) : CANNOT_ASK;
    if (!asking.ok) return refuse(request, { error: { code: CODES.invalidParams, message: asking.error } });
    const key = apiKeyIn(request.params);
    const progress = isChallenged ? undefined : progressOf(request, begin?.());
    const call = callOf(sender.context, key, {
      operation,
      progress: progress?.report,
      clientCapabilities: capabilities,
      trace: metaTrace(request.params._meta) ?? metaTrace(given._meta),
      asking: asking.value,
      audience: showsWidgets(capabilities) ? 'model_with_widget' : 'model',
    });
    const { credential } = operation;
    if (begin !== undefined || credential === null) call.response.sender = sender.as(credential);
    // The client may have cancelled while its sender was identified. A guard that awaits nothing asks for no signal.
    if (sender.takesTime && canceller?.signal.aborted) call.abort(canceller.signal.reason);
    const running = run(operation, withoutMeta(given), call, canceller);
    const result = begin === undefined ? holdingOpen(sender.context, operation.timeoutMs, running) : running;
    function reply(ended: ToolResult): Reply {
      progress?.stop();
      const { text, errorCode, isError } = callResultText(request.id, era, operation, ended, call.requestId);
      const challenge =
        !ended.ok && isChallenge(ended.error, call.response, peer, isChallenged) ? ended.error : undefined;
      return { text, errorCode, isError, call, challenge };
    }
    return chain(result, reply);
  }

  function replyTo(request: RequestMessage, outcome: Outcome, peer: Peer): Awaitable<Reply> {
    if ('given' in outcome) return callFor(request, outcome, peer);
    if ('error' in outcome) return refuse(request, outcome);
    const { fields, cacheScope } = outcome;
    const cache = peer.era === 'modern' && cacheScope ? `"ttlMs":${CACHE_MS},"cacheScope":"${cacheScope}",` : '';
    return { text: resultText(request.id, eraFields(peer.era) + cache + fields) };
  }

  return (request, peer) => {
    const { method, params } = request;
    const { era, refused } = peer;
    const found = methods.get(method);
    if (refused !== undefined) return { ...refuse(request, refused), isUnknown: found === undefined };
    if (found === undefined || (found.only ?? era) !== era) {
      return { ...refuse(request, { error: NOT_FOUND, ...(era === 'modern' && { status: 404 }) }), isUnknown: true };
    }
    return chain(found.run(params, peer), (outcome) => replyTo(request, outcome, peer));
  };
}

/** Creates the progress reporter of a call; undefined if its client doesn't want progress or can't get it. */
function progressOf({ params }: RequestMessage, send: ((message: string) => void) | undefined) {
  const token = send && progressTokenOf(params._meta);
  return send === undefined || token === undefined ? undefined : progressReporter(token, send);
}

/**
 * Returns whether a problem challenges a client that signs in, or whose guard refuses a key of a header that has ended. A key
 * that ends during the call is reported in the result: the tool has run.
 */
function isChallenge(
  problem: Problem,
  { refused }: CallResponse,
  { sender, begin }: Peer,
  isChallenged: boolean,
): boolean {
  if (isChallenged) return challengeFor(problem, null) !== null;
  const isRefused = begin === undefined && refused !== undefined && carriesCredential(sender.context.credentials);
  return isRefused && isEndedKey(problem);
}

const CANNOT_ASK = { ok: true, value: undefined } as const;

/** Returns whether the call lacks the kind of credential that a client gets by signing in. */
function lacksCredential({ credential }: Operation, sender: Sender, metaKey: string | null): Awaitable<boolean> {
  const { signIn } = sender;
  if (signIn === null || credential !== (signIn.handsOutKeys ? 'api_key' : 'user_jwt')) return false;
  if (signIn.handsOutKeys) return metaKey === null && !carriesCredential(sender.context.credentials);
  if (sender.context.credentials.bearer === null) return true;
  // A key instead of a user token is reported in-band: after a challenge, the client would send it again.
  return chain(sender.identify(metaKey), ({ user }) => user?.ok === false && user.error.code === 'invalid_token');
}
