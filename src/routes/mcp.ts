// POST /mcp: Streamable HTTP of every revision, without sessions, so that any replica can answer any request.

import { accepts } from '../http/accept.ts';
import { withJson } from '../http/body.ts';
import { challengeFor } from '../http/challenge.ts';
import type { Exchange, Perishable } from '../http/context.ts';
import { holdingOpen, type NeedsHttps } from '../http/context.ts';
import { carriesCredential, readCredentials } from '../http/credentials.ts';
import { EVENT_STREAM_HEADERS, eventText } from '../http/event-stream.ts';
import { createAnswerHeaders } from '../http/headers.ts';
import type { EventStreams } from '../http/keep-alive.ts';
import { problemResponse } from '../http/problem-response.ts';
import type { Handler } from '../http/router.ts';
import type { SendText } from '../http/send-text.ts';
import type { RateLimitState } from '../lib/rate-limit.ts';
import { type Awaitable, chain, err, type Result } from '../lib/result.ts';
import { classify, type Era, type IncomingRequest, legacyContext } from '../mcp/era.ts';
import {
  carriesApiKey,
  errorText,
  type Id,
  type Message,
  PARSE_ERROR,
  type RequestMessage,
  resultText,
} from '../mcp/message.ts';
import type { Methods, ToolStep } from '../mcp/methods.ts';
import { type LiveAnswer, liveAnswer } from '../mcp/progress.ts';
import { accepted, deniedError, oauthChallenge, toolResultText } from '../mcp/tool-result.ts';
import type { Problem } from '../problem.ts';
import type { Call, CallMaker } from '../tools/core/call.ts';
import type { Confirm } from '../tools/core/confirm.ts';
import type { RunTool, ToolResult } from '../tools/core/run.ts';

export interface McpRouteOptions {
  readonly methods: Methods;
  readonly newCall: CallMaker;
  readonly needsHttps: NeedsHttps;
  readonly runTool: RunTool;
  readonly confirm: Confirm;
  readonly sendText: SendText;
  readonly streams: EventStreams;
  /** Where OAuth clients learn where to sign in; null: they are never challenged. */
  readonly metadataUrl: () => string | null;
  /** Challenge every request without a credential, whatever it asks for, so that clients sign in when they connect. */
  readonly eager: boolean;
}

/** Once the answers of a batch hold this much, its other requests are refused and do not run. */
const BATCH_CHARS_MAX = 1024 * 1024;
const OVERLOADED: Problem = { code: 'overloaded' };

export function mcpRoute(options: McpRouteOptions): Handler {
  const { methods, newCall, needsHttps, runTool, confirm, sendText, streams, metadataUrl, eager } = options;
  const answerHeaders = createAnswerHeaders();

  /**
   * One JSON-RPC answer, as an event stream only for a client that takes nothing else. Null when there is no room for
   * it.
   */
  function tryReply(
    exchange: Exchange,
    text: string | readonly string[],
    { status = 200, rateLimit, onSent }: ReplyOptions = {},
  ): Response | null {
    if (status === 200 && !takesJson(exchange)) {
      const data = typeof text === 'string' ? text : text.join('');
      return sendText(eventText({ event: 'message', data }), { headers: EVENT_STREAM_HEADERS }, onSent);
    }
    return sendText(text, { status, headers: answerHeaders(rateLimit) }, onSent);
  }

  const reply = (exchange: Exchange, text: string | readonly string[], options?: ReplyOptions): Response =>
    tryReply(exchange, text, options) ?? problemResponse(OVERLOADED, exchange.requestId);

  function answerRequest(exchange: Exchange, incoming: IncomingRequest): Awaitable<Response> {
    const { id } = incoming.request;
    const step = methods.step(incoming.request, incoming);
    switch (step.kind) {
      case 'result':
        return reply(exchange, resultText(id, step.members));
      case 'error':
        return reply(exchange, errorText(id, step.error), { status: step.status });
      case 'tool':
        return answerCall(exchange, incoming, step);
    }
  }

  function answerCall(exchange: Exchange, { request, era }: IncomingRequest, step: ToolStep): Awaitable<Response> {
    const { progressToken: token } = step;
    const live = token === undefined || !takesEvents(exchange) ? null : liveAnswer(streams, exchange, token);
    const call = newCall(exchange, step.metaApiKey, live === null ? step : { ...step, progress: live.report });
    // Closing the answer's stream cancels the call, but only in the modern era.
    const result = runTool(step.tool, step.input, call, era === 'modern' ? (live ?? exchange.request) : undefined);
    const answered = chain(holdingOpen(exchange, step.tool.timeoutMs, result), answerResult, {
      exchange,
      id: request.id,
      era,
      step,
      call,
      live,
      renew,
    });
    return live === null ? answered : Promise.race([live.opened, answered]);
  }

  function answerResult(result: ToolResult, made: MadeCall): Response {
    const { exchange, id, era, step, call, live } = made;
    const { requestId } = exchange;
    const challenge = oauthChallenge(step, result, metadataUrl);
    if (challenge !== null) return problemResponse(challenge.problem, requestId, challenge.header);
    const about = { id, era, requestId };
    const text = toolResultText(methods, about, result);
    const overloaded = () => toolResultText(methods, about, err(OVERLOADED));
    const streamed = live?.finish(text, overloaded);
    if (streamed !== undefined) {
      call.release();
      return streamed;
    }
    if (result.ok) exchange.perishable = made;
    const { rateLimit } = call;
    return (
      tryReply(exchange, text, { rateLimit, onSent: call.takeHeld() }) ?? reply(exchange, overloaded(), { rateLimit })
    );
  }

  function renew(this: MadeCall) {
    const { exchange, call } = this;
    return confirm(call)?.then((problem) => {
      if (problem === undefined) return undefined;
      const text = toolResultText(methods, { ...this, requestId: exchange.requestId }, err(problem));
      return reply(exchange, text, { rateLimit: call.rateLimit });
    });
  }

  async function batchAnswer(exchange: Exchange, message: RequestMessage, full: boolean): Promise<BatchAnswer> {
    const { requestId, request } = exchange;
    const { id } = message;
    const step = methods.step(message, legacyContext(request.headers));
    switch (step.kind) {
      case 'result':
        return { id, text: full ? errorText(id, deniedError(OVERLOADED)) : resultText(id, step.members) };
      case 'error':
        return { id, text: errorText(id, step.error) };
      case 'tool': {
        const call = newCall(exchange, step.metaApiKey);
        const result = full ? err(OVERLOADED) : await runTool(step.tool, step.input, call);
        const text = toolResultText(methods, { id, era: 'legacy', requestId }, result);
        return result.ok ? { id, text, success: call } : { id, text };
      }
    }
  }

  /** One after the other: a hundred calls at once, each with a large answer, could take all the memory there is. */
  async function batchAnswers(exchange: Exchange, messages: readonly Message[]): Promise<BatchAnswer[]> {
    const answers: BatchAnswer[] = [];
    let chars = 0;
    for (const message of messages) {
      if (message.kind === 'invalid') answers.push({ id: message.id, text: errorText(message.id, message.error) });
      if (message.kind !== 'request') continue;
      const answer = await batchAnswer(exchange, message, chars >= BATCH_CHARS_MAX);
      chars += answer.text.length;
      answers.push(answer);
    }
    return answers;
  }

  async function answerBatch(exchange: Exchange, messages: readonly Message[]): Promise<Response> {
    const answers = await holdingOpen(exchange, Number.POSITIVE_INFINITY, batchAnswers(exchange, messages));
    if (answers.length === 0) return accepted();
    exchange.perishable = { renew: () => renewBatch(exchange, answers) };
    return replyBatch(exchange, answers);
  }

  function replyBatch(exchange: Exchange, answers: readonly BatchAnswer[]): Response {
    const onSent = () => {
      for (const { success } of answers) success?.release();
    };
    const parts = answers.flatMap(({ text }, index) => [index === 0 ? '[' : ',', text]);
    return reply(exchange, [...parts, ']'], { onSent });
  }

  function renewBatch(exchange: Exchange, answers: BatchAnswer[]) {
    const { requestId } = exchange;
    let changed = false;
    const renewing = answers.flatMap(({ id, success }, index) => {
      if (id === undefined || success === undefined) return [];
      const confirmed = confirm(success)?.then((problem) => {
        if (problem === undefined) return;
        changed = true;
        answers[index] = { id, text: toolResultText(methods, { id, era: 'legacy', requestId }, err(problem)) };
      });
      return confirmed ?? [];
    });
    if (renewing.length === 0) return undefined;
    return Promise.all(renewing).then(() => (changed ? replyBatch(exchange, answers) : undefined));
  }

  function answerBody(body: Result<unknown, Problem>, exchange: Exchange): Awaitable<Response> {
    if (!body.ok) {
      if (body.error.code === 'invalid_json')
        return reply(exchange, errorText(undefined, PARSE_ERROR), { status: 400 });
      return problemResponse(body.error, exchange.requestId);
    }
    if (needsHttps(exchange) && carriesApiKey(body.value)) {
      return problemResponse({ code: 'https_required' }, exchange.requestId);
    }
    if (eager && metadataUrl() !== null && !carriesAny(exchange, body.value)) {
      const problem: Problem = { code: 'missing_token' };
      return problemResponse(problem, exchange.requestId, challengeFor(problem, metadataUrl()));
    }
    const classified = classify(body.value, exchange.request.headers);
    switch (classified.kind) {
      case 'request':
        return answerRequest(exchange, classified);
      case 'batch':
        return answerBatch(exchange, classified.messages);
      case 'accepted':
        return accepted();
      case 'refused':
        return reply(exchange, errorText(classified.id, classified.error), { status: 400 });
    }
  }

  return (exchange) => withJson(exchange.request, answerBody, exchange);
}

/** True when the request or any message in it carries a credential, good or bad. */
const carriesAny = ({ request }: Exchange, body: unknown): boolean =>
  carriesCredential(readCredentials(request.headers, null)) || carriesApiKey(body);

/** What it takes to answer a call once its result is there. */
interface MadeCall extends Perishable {
  readonly exchange: Exchange;
  readonly id: Id;
  readonly era: Era;
  readonly step: ToolStep;
  readonly call: Call;
  readonly live: LiveAnswer | null;
}

interface BatchAnswer {
  readonly id: Id | undefined;
  readonly text: string;
  /** The call, if it succeeded. */
  readonly success?: Call;
}

interface ReplyOptions {
  readonly status?: 200 | 400 | 404;
  readonly rateLimit?: RateLimitState | undefined;
  readonly onSent?: (() => void) | undefined;
}

const EVENTS = 'text/event-stream';
/**
 * What the specification tells clients to send (2025-03-26 on, Streamable HTTP), and nearly all do. Needs no parsing.
 */
const JSON_AND_EVENTS = 'application/json, text/event-stream';

/** A client that takes neither gets JSON: it may be mistaken about what it can read. */
function takesJson({ request }: Exchange): boolean {
  const accept = request.headers.get('accept');
  if (accept === null || accept === JSON_AND_EVENTS) return true;
  return accepts(accept, 'application/json') || !accepts(accept, EVENTS);
}

/** Only a client that names event streams: one that takes anything may not know them. */
function takesEvents({ request }: Exchange): boolean {
  const accept = request.headers.get('accept')?.toLowerCase() ?? '';
  return accept.includes(EVENTS) && accepts(accept, EVENTS);
}
