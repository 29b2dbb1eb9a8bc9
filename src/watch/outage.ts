// Logs the beginning and the end of an outage once each, and returns the problem for calls during a store outage.

import { StoreOutage } from '../ground/result.ts';
import type { InfoEvent, WarnEvent } from './events.ts';
import type { Log, LogFields, RequestIds } from './log.ts';

export type OutageLog = ReturnType<typeof createOutageLog>;

export interface OutageEvents {
  readonly on: WarnEvent;
  /** The event at the end. If left out, the caller logs the end with more detail. */
  readonly off?: InfoEvent;
  /** Whether further reasons are logged, too: each once, as two may alternate, and the first ten. */
  readonly eachReason?: boolean;
  /** The issuer that is out of reach, where there may be several. */
  readonly issuer?: string | undefined;
}

const REASONS_MAX = 10;

export function createOutageLog(log: Log, { on, off, eachReason = false, issuer }: OutageEvents) {
  const logged = new Set<string>(); // reasons
  return {
    /** Returns true from the first `began` to the next `ended`. */
    get isOn(): boolean {
      return logged.size > 0;
    },
    began(reason: string): void {
      if (logged.size >= (eachReason ? REASONS_MAX : 1) || logged.has(reason)) return;
      log.warn(on, { reason, issuer });
      logged.add(reason);
    },
    ended(): void {
      if (logged.size > 0 && off !== undefined) log.info(off, { issuer });
      logged.clear();
    },
  };
}

/** Returns the problem for a caller during an outage. Logs the reason, once for all calls. */
export function outageProblem({ reason }: StoreOutage, log: Log, { requestId, traceId }: RequestIds) {
  log.warnOnce('key store out of reach', { requestId, traceId, reason });
  return { code: 'store_unavailable', reason } as const;
}

/** Returns the problem for a caller for whom this was thrown: an outage, or a bug, which it logs with `fields`. */
export function thrownProblem(thrown: unknown, log: Log, ids: RequestIds, fields?: LogFields) {
  // A proxy that was revoked, which a tool may throw, makes instanceof throw.
  if (Error.isError(thrown) && thrown instanceof StoreOutage) return outageProblem(thrown, log, ids);
  const { requestId, traceId } = ids;
  log.error('internal error', { requestId, traceId, ...fields, error: thrown });
  return { code: 'internal' } as const;
}
