// Defines what may watch requests and calls: the access log, metrics, traces. Each wraps what it watches.

import type { Run } from '../calls/run.ts';
import type { Mcp } from '../mcp/server.ts';
import type { ObserveRequest } from '../web/context.ts';

export type Transport = 'rest' | 'http' | 'sse';

export interface Observer {
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
  if (all.length === 0) return undefined;
  return (context) => {
    const ends = all.map((observe) => observe(context));
    return (response) => {
      for (const end of ends) end(response);
    };
  };
}
