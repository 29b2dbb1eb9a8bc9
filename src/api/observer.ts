// Defines what may watch requests and calls: the access log, metrics, traces. Each wraps what it watches.

import { callerOf, callIn } from '../calls/call.ts';
import type { Run } from '../calls/run.ts';
import type { Clock } from '../ground/runtime.ts';
import { clientText } from '../mcp/client.ts';
import type { Mcp } from '../mcp/server.ts';
import type { Log } from '../watch/log.ts';
import { excerptOf, redactHashes } from '../watch/redact.ts';
import { forwardedPath, type ObserveRequest } from '../web/context.ts';
import { codeOf } from '../web/problem-response.ts';

export type Transport = 'rest' | 'http' | 'sse';

export interface Observer {
  /** Watches all HTTP requests. */
  readonly request?: ObserveRequest | undefined;
  /** Watches calls of tools, prompts and completions over a transport. */
  readonly run?: (transport: Transport, run: Run) => Run;
  /** Watches MCP requests, calls included. */
  readonly mcp?: (transport: Transport, mcp: Mcp) => Mcp;
}

export type Observed = Required<Observer>;

/** Returns all observers as one. What nobody watches is returned as it is. */
export function observing(observers: readonly Observer[]): Observed {
  return {
    request: observingRequests(observers.flatMap(({ request }) => request ?? [])),
    run: (transport, run) => observers.reduce((inner, observer) => observer.run?.(transport, inner) ?? inner, run),
    mcp: (transport, mcp) => observers.reduce((inner, observer) => observer.mcp?.(transport, inner) ?? inner, mcp),
  };
}

function observingRequests(all: readonly ObserveRequest[]): ObserveRequest | undefined {
  const [first, ...others] = all;
  if (others.length === 0) return first;
  return (context) => {
    const ends = all.map((observe) => observe(context));
    return (response) => {
      for (const end of ends) end(response);
    };
  };
}

// The access log: with ACCESS_LOG=1, writes a line for each request when its response leaves.

interface AccessLogOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** The route of /verify, whose lines have the path that a trusted proxy asks about. */
  readonly verifyRoute: string;
  readonly trustProxy: number;
}

export const createAccessLog =
  ({ clock, log, verifyRoute, trustProxy }: AccessLogOptions): ObserveRequest =>
  (context) => {
    const startedMs = clock.monotonicMs();
    const address = context.clientAddress(); // read now: a client that has left has none
    return (response) => {
      const { status } = response;
      const { requestId, request, headers, route } = context;
      const call = callIn(context);
      const durationMs = Math.round((clock.monotonicMs() - startedMs) * 1000) / 1000;
      const tool = call?.tool || context.tool;
      const { keyId, keyName: name, subject, parentId, actor } = call?.auth ?? call?.response.refused ?? {};
      const keyName = name && redactHashes(name); // a person may name a key by its hash
      const caller =
        keyId === undefined
          ? { userId: subject, ...(actor !== subject && { actor }) }
          : {
              keyId,
              keyName,
              owner: subject,
              ...(parentId && { parentId }),
              ...ruleFields(call),
            };
      const cost = call?.cost === 1 ? undefined : call?.cost;
      const { traceId } = call?.caller ?? callerOf(context);
      const userAgent = headers.get('user-agent');
      const path = route === verifyRoute && trustProxy > 0 ? forwardedPath(headers) : undefined;
      log.info('request', {
        requestId,
        traceId,
        method: request.method,
        route,
        path,
        tool,
        cost,
        status,
        code: codeOf(response) ?? call?.response.code,
        durationMs,
        address,
        ...caller,
        userAgent: userAgent ? excerptOf(userAgent) : undefined,
        client: clientText(context.clientInfo),
      });
    };
  };

/** Returns whose token was presented in place of a key, and the rule that let it in. */
function ruleFields(call: ReturnType<typeof callIn>) {
  const rule = call?.proof?.key?.rule ?? call?.response.refused?.rule;
  return rule && { rule: rule.id, workload: rule.workload };
}
