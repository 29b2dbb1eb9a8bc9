// The access log: one line for each request, when its response leaves. Only with ACCESS_LOG=1.

import type { ObserveRequest } from '../http/context.ts';
import type { Clock } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';

/** `route` is the path in the route table, not the one that was sent; null if there is none. */
export const createAccessLog =
  (clock: Clock, log: Log): ObserveRequest =>
  (context, route) => {
    const startedMs = clock.monotonicMs();
    const address = context.clientAddress(); // now: a client that has left has none
    return ({ status }) => {
      const { requestId, request, call } = context;
      const durationMs = Math.round((clock.monotonicMs() - startedMs) * 1000) / 1000;
      const tool = call?.tool || undefined;
      const { keyId, subject: userId, actor } = call?.auth ?? {};
      const caller = keyId === undefined ? { userId, ...(actor !== userId && { actor }) } : { keyId };
      const traceId = call?.traceId;
      log.info('request', {
        requestId,
        traceId,
        method: request.method,
        route,
        tool,
        status,
        durationMs,
        address,
        ...caller,
      });
    };
  };
