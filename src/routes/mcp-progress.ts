// Sends a tool call's progress to the client: filters what may be sent, and turns the response into a stream for it.

import type { RequestContext } from '../http/context.ts';
import type { EventStream, EventStreams } from '../http/sending/event-stream.ts';
import { notificationText } from '../mcp/message.ts';
import type { ProgressToken } from '../mcp/plan.ts';

/**
 * `Call.progress` for a client that sent a token. Progress that does not increase is left out (basic/patterns/progress:
 * it must increase), and so is any after the response.
 */
export function progressReporter(token: ProgressToken, send: (message: string) => void) {
  let last = Number.NEGATIVE_INFINITY;
  let over = false;
  return {
    report(progress: number, total?: number, message?: string): void {
      if (over || !Number.isFinite(progress) || progress <= last) return;
      last = progress;
      send(notificationText('notifications/progress', { progressToken: token, progress, total, message }));
    },
    stop() {
      over = true;
    },
  };
}

export type ProgressResponse = ReturnType<typeof progressResponse>;

/** A response that switches to SSE on the first progress notification. */
export function progressResponse(streams: EventStreams, context: RequestContext, token: ProgressToken) {
  const { promise: opened, resolve } = Promise.withResolvers<Response>();
  const ended = new AbortController();
  let stream: EventStream | undefined;
  const progress = progressReporter(token, (data) => {
    if (stream === undefined) {
      stream = streams.open(context, () => ended.abort());
      resolve(stream.response);
    }
    stream.offer({ event: 'message', data });
  });
  return {
    report: progress.report,
    /**
     * Aborted when the client is gone. If it reset its connection, Deno ends the stream but does not abort the request.
     */
    get signal() {
      return AbortSignal.any([context.request.signal, ended.signal]);
    },
    /** Resolves with the stream's response when there is one. */
    opened,
    /**
     * Ends the stream with the response, or with `refusal` when there is no room for it. Undefined without a stream.
     */
    finish(data: string, refusal: () => string): Response | undefined {
      progress.stop();
      if (stream === undefined) return undefined;
      const isSent = stream.close({ event: 'message', data }) || stream.close({ event: 'message', data: refusal() });
      if (!isSent) stream.cut();
      return stream.response;
    },
  };
}
