// Progress of a tool call on its way to the client: what may be told, and an answer that turns into a stream to tell it.

import type { EventStream } from '../http/event-stream.ts';
import type { EventStreams } from '../http/event-streams.ts';
import type { Exchange } from '../http/exchange.ts';
import { notificationText } from '../mcp/message.ts';
import type { ProgressToken } from '../mcp/methods.ts';

/**
 * `Call.progress` for a client that sent a token. What does not increase is left out (basic/patterns/progress: it must),
 * and so is what comes after the answer.
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

export type LiveAnswer = ReturnType<typeof liveAnswer>;

/** An answer that becomes an event stream with the first progress, if there is any. */
export function liveAnswer(streams: EventStreams, exchange: Exchange, token: ProgressToken) {
  const { promise: opened, resolve } = Promise.withResolvers<Response>();
  const ended = new AbortController();
  let stream: EventStream | undefined;
  const progress = progressReporter(token, (data) => {
    if (stream === undefined) {
      stream = streams.open(exchange, () => ended.abort());
      resolve(stream.response);
    }
    stream.send({ event: 'message', data }); // progress that a slow client has no room for is left out
  });
  return {
    report: progress.report,
    /** Aborted when the client is gone. Where that resets its connection, Deno ends the stream and aborts no request. */
    get signal() {
      return AbortSignal.any([exchange.request.signal, ended.signal]);
    },
    /** Resolves with the stream's response when there is one. */
    opened,
    /** Ends the stream with the answer; undefined when there is none. */
    finish(data: string): Response | undefined {
      progress.stop();
      stream?.close({ event: 'message', data });
      return stream?.response;
    },
  };
}
