// What the server does for an MCP request: one message in, one reply out, whatever the revision. The transports
// (mcp/streamable-http.ts, mcp/sse.ts) only write the reply.

import { type Call, callOf, withoutMeta } from '../calls/call.ts';
import type { Operation } from '../calls/operation.ts';
import type { AbortSource, Run } from '../calls/run.ts';
import type { Problem } from '../ground/problem.ts';
import { type Awaitable, chain, isPromise } from '../ground/result.ts';
import { metaTrace } from '../ground/trace.ts';
import { challengeFor, type SignIn } from '../web/challenge.ts';
import { holdingOpen } from '../web/context.ts';
import { carriesCredential } from '../web/credentials.ts';
import { showsWidgets } from './apps.ts';
import { askingOf, type RequestStates } from './asking.ts';
import { eraMembers } from './descriptions.ts';
import { apiKeyIn, CODES, errorText, type Id, type RequestMessage, type RpcError, resultText } from './message.ts';
import { createMethods, type MethodsOptions, type PlannedCall, type Requester } from './methods.ts';
import { progressReporter, progressTokenOf } from './progress.ts';
import type { Sender } from './sender.ts';
import { callResultText } from './tool-result.ts';

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

  async function makeCall(request: RequestMessage, { operation, given }: PlannedCall, peer: Peer): Promise<Reply> {
    const { id, params } = request;
    const { sender, era, capabilities, signIn, begin, canceller } = peer;
    const { context } = sender;
    const { _meta: meta } = params;
    const isAsking = era === 'modern' && operation.kind !== 'completion';
    const asking = isAsking ? askingOf(requestStates, params, capabilities) : NOBODY;
    if (!asking.ok) return errorReply(id, { code: CODES.invalidParams, message: asking.error });
    const key = apiKeyIn(params);
    const lacking = signIn !== null && lacksCredential(operation, signIn, sender, key);
    const isChallenged = isPromise(lacking) ? await lacking : lacking;
    const send = isChallenged ? undefined : begin?.();
    const token = progressTokenOf(meta);
    const progress = send && token !== undefined ? progressReporter(token, send) : undefined;
    const call = callOf(context, key, {
      operation,
      progress: progress?.report,
      clientCapabilities: capabilities,
      trace: metaTrace(meta) ?? metaTrace(given._meta),
      asking: asking.value,
      audience: showsWidgets(capabilities) ? 'model_with_widget' : 'model',
      user: sender.user,
    });
    const running = run(operation, withoutMeta(given), call, canceller);
    const result = await (begin === undefined ? holdingOpen(context, operation.timeoutMs, running) : running);
    progress?.stop();
    const reply = {
      text: callResultText({ id, era, operation, call }, result),
      call,
      success: result.ok ? call : undefined,
    };
    if (!isChallenged || result.ok) return reply;
    const header = challengeFor(result.error, signIn);
    return header === null ? reply : { ...reply, challenge: { problem: result.error, header } };
  }

  return (request, peer) => {
    const { id, method, params } = request;
    const { era } = peer;
    const found = methods.get(method);
    if (found === undefined || (found.only ?? era) !== era) {
      return errorReply(id, NOT_FOUND, era === 'modern' ? 404 : undefined);
    }
    return chain(found.run(params, peer), (outcome): Awaitable<Reply> => {
      if ('operation' in outcome) return makeCall(request, outcome, peer);
      if ('error' in outcome) return errorReply(id, outcome.error, outcome.status);
      const { members, cacheScope } = outcome;
      const cache = era === 'modern' && cacheScope ? `"ttlMs":${CACHE_MS},"cacheScope":"${cacheScope}",` : '';
      return { text: resultText(id, eraMembers(era) + cache + members) };
    });
  };
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
  if (handsOutKeys) return metaKey === null && !carriesCredential(sender.credentials);
  if (sender.credentials.bearer === null) return true;
  // A key in place of a user token is reported in-band: a client would send it again.
  return chain(sender.identify(metaKey), ({ user }) => user?.ok === false && user.error.code === 'invalid_token');
}
