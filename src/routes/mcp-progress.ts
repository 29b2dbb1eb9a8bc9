// Progress of a tool call: filters what may be sent, and turns the response into an event stream for it.

import type { RequestContext } from '../http/context.ts';
import type { EventStream, Streams } from '../http/stream.ts';
import { notificationText } from '../mcp/message.ts';
import type { ProgressToken } from '../mcp/plan.ts';

/** Drops progress that does not increase (basic/patterns/progress: it must), and any after the response. */
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

export function progressResponse(streams: Pick<Streams, 'open'>, context: RequestContext, token: ProgressToken) {
  const { promise: opened, resolve } = Promise.withResolvers<Response>();
  const ended = new AbortController();
  let stream: EventStream | undefined;
  const progress = progressReporter(token, (data) => {
    if (stream === undefined) {
      stream = streams.open(context, () => ended.abort());
      resolve(stream.response);
    }
    stream.offer('message', data);
  });
  return {
    report: progress.report,
    /** Aborts when the client is gone. When it resets the connection, Deno ends the stream but aborts no request. */
    get signal() {
      return AbortSignal.any([context.request.signal, ended.signal]);
    },
    opened,
    /** Ends the stream with `data`, or with `refusal` when there is no room for it. Undefined if there is no stream. */
    finish(data: string, refusal: () => string): Response | undefined {
      progress.stop();
      if (stream === undefined) return undefined;
      if (stream.send('message', data) || stream.send('message', refusal())) stream.close();
      else stream.cut();
      return stream.response;
    },
  };
}
