// What the server does for an MCP request: one message in, one reply out, whatever the revision. The transports
// (mcp/streamable-http.ts, mcp/sse.ts) only write the reply.

import { type Call, callOf, metaTrace, withoutMeta } from '../calls/call.ts';
import type { Sender } from '../calls/identify.ts';
import type { Operation } from '../calls/operation.ts';
import type { AbortSource, Run } from '../calls/run.ts';
import type { Problem } from '../ground/problem.ts';
import { type Awaitable, chain } from '../ground/result.ts';
import { carriesCredential, holdingOpen } from '../web/context.ts';
import { challengeFor, type SignIn } from '../web/problem-response.ts';
import { askingOf, type RequestStates, showsWidgets } from './client.ts';
import {
  apiKeyIn,
  CODES,
  eraFields,
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
   * Tells that a call begins, which no challenge answers. From now on its progress is sent with the returned function,
   * and only the text of its reply counts.
   */
  readonly begin?: () => (message: string) => void;
  readonly canceller?: AbortSource | undefined;
}

export interface Reply {
  readonly text: string;
  /** The code of a JSON-RPC error. */
  readonly errorCode?: number;
  /** The call that was made; its rate limit is for the headers of an HTTP response that is the reply. */
  readonly call?: Call;
  /** The status of such a response; 200 unless given. */
  readonly status?: 400 | 404;
  /** The challenge that such a response sends in place of the text. */
  readonly challenge?: { readonly problem: Problem; readonly header: string };
}

/** Waits for nothing where it calls nothing. */
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

  async function callFor(request: RequestMessage, planned: PlannedCall, peer: Peer): Promise<Reply> {
    const { operation, given } = planned;
    const { sender, era, capabilities, signIn, begin, canceller } = peer;
    const isAsking = era === 'modern' && operation.kind !== 'completion';
    const asking = isAsking ? askingOf(requestStates, request.params, capabilities) : CANNOT_ASK;
    if (!asking.ok) return errorReply(request.id, { code: CODES.invalidParams, message: asking.error });
    const key = apiKeyIn(request.params);
    const isChallenged = signIn !== null && (await lacksCredential(operation, signIn, sender, key));
    const progress = isChallenged ? undefined : progressOf(request, begin?.());
    const call = callOf(sender.context, key, {
      operation,
      progress: progress?.report,
      clientCapabilities: capabilities,
      trace: metaTrace(request.params._meta) ?? metaTrace(given._meta),
      asking: asking.value,
      audience: showsWidgets(capabilities) ? 'model_with_widget' : 'model',
    });
    const running = run(operation, withoutMeta(given), call, canceller);
    const result = await (begin === undefined ? holdingOpen(sender.context, operation.timeoutMs, running) : running);
    progress?.stop();
    const text = callResultText({ id: request.id, era, operation, call }, result);
    const challenge =
      !result.ok && isChallenged ? challengeOf(result.error, signIn, sender.context.publicUrl) : undefined;
    return challenge === undefined ? { text, call } : { text, call, challenge };
  }

  function replyTo(request: RequestMessage, outcome: Outcome, peer: Peer): Awaitable<Reply> {
    const { id } = request;
    if ('operation' in outcome) return callFor(request, outcome, peer);
    if ('error' in outcome) return errorReply(id, outcome.error, outcome.status);
    const { fields, cacheScope } = outcome;
    const cache = peer.era === 'modern' && cacheScope ? `"ttlMs":${CACHE_MS},"cacheScope":"${cacheScope}",` : '';
    return { text: resultText(id, eraFields(peer.era) + cache + fields) };
  }

  return (request, peer) => {
    const { id, method, params } = request;
    const { era } = peer;
    const found = methods.get(method);
    if (found === undefined || (found.only ?? era) !== era) {
      return errorReply(id, NOT_FOUND, era === 'modern' ? 404 : undefined);
    }
    return chain(found.run(params, peer), (outcome) => replyTo(request, outcome, peer));
  };
}

/** Reports the progress of a call whose client asked for it and can be told. */
function progressOf({ params }: RequestMessage, send: ((message: string) => void) | undefined) {
  const token = send && progressTokenOf(params._meta);
  return send === undefined || token === undefined ? undefined : progressReporter(token, send);
}

function challengeOf(problem: Problem, signIn: SignIn, publicUrl: string): Reply['challenge'] {
  const header = challengeFor(problem, signIn.under(publicUrl));
  return header === null ? undefined : { problem, header };
}

const CANNOT_ASK = { ok: true, value: undefined } as const;

const errorReply = (id: Id, error: RpcError, status?: 400 | 404): Reply => ({
  text: errorText(id, error),
  errorCode: error.code,
  ...(status && { status }),
});

/** Resolves with whether the call has no credential of the kind that its client gets by signing in. */
async function lacksCredential(
  { credential }: Operation,
  { handsOutKeys }: SignIn,
  sender: Sender,
  metaKey: string | null,
): Promise<boolean> {
  if (credential !== (handsOutKeys ? 'api_key' : 'user_jwt')) return false;
  if (handsOutKeys) return metaKey === null && !carriesCredential(sender.context.credentials);
  if (sender.context.credentials.bearer === null) return true;
  // A key in place of a user token is reported in-band: a client would send it again.
  const { user } = await sender.identify(metaKey);
  return user?.ok === false && user.error.code === 'invalid_token';
}
