// Begins and ends spans: ids, the sampler's decision, times.

import type { Trace } from '../../calls/call.ts';
import type { Identify } from '../../calls/identify.ts';
import type { Env } from '../../config/env.ts';
import type { Clock, RandomBytes } from '../../ground/runtime.ts';
import type { Log } from '../../watch/log.ts';
import type { Span } from './encoding.ts';
import type { Sampler, TraceSettings } from './settings.ts';

/** What this door takes of the core. */
export interface TracesOptions {
  readonly env: Env;
  readonly config: { readonly basePath: string; readonly production: boolean };
  readonly instance: string;
  readonly identify: Identify;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Log;
}

export type Begun = Pick<Span, 'traceId' | 'spanId' | 'parent'>;

type Times = Pick<Span, 'startedAtMs' | 'durationMs'>;

export type Ended = Pick<Span, 'name' | 'isError' | 'attributes'>;

/** Creates the tracer. `add` adds a span that has ended. */
export function createTracer({ sampler }: TraceSettings, { clock, random }: TracesOptions, add: (span: Span) => void) {
  const makeId = createIds(random);
  return {
    /** Begins a span; undefined if the sampler leaves it out. */
    begin(parent: Trace | undefined): Begun | undefined {
      const traceId = parent?.traceId ?? makeId(TRACE_ID_BYTES);
      const isKept = parent !== undefined && sampler.isParentBased ? parent.sampled : isSampled(traceId, sampler);
      return isKept ? { traceId, spanId: makeId(SPAN_ID_BYTES), parent } : undefined;
    },
    /** Returns the times of a span that began at a time of the monotonic clock, and ends now. */
    timesSince(startedMs: number): Times {
      const durationMs = clock.monotonicMs() - startedMs;
      return { startedAtMs: clock.nowMs() - durationMs, durationMs };
    },
    end({ traceId, spanId, parent }: Begun, times: Times, { name, isError, attributes }: Ended): void {
      const { startedAtMs, durationMs } = times;
      add({ traceId, spanId, parent, name, startedAtMs, durationMs, isError, attributes });
    },
  };
}

const DIGITS = 13; // 52 bits, which a number holds exactly

/** Returns whether a trace is in the sampler's part, by its id alone: all that see it decide alike. */
function isSampled(traceId: string, { ratio }: Sampler): boolean {
  return Number.parseInt(traceId.slice(-DIGITS), 16) / 16 ** DIGITS < ratio;
}

const POOL_BYTES = 4096;

const TRACE_ID_BYTES = 16;
const SPAN_ID_BYTES = 8;

/** Creates the function that makes random hex ids, from a pool: a call of the generator costs as much as 1,000 bytes. */
function createIds(random: RandomBytes) {
  let pool = '';
  let at = 0;
  return (bytes: number): string => {
    const digits = 2 * bytes;
    if (at + digits > pool.length) {
      pool = random(POOL_BYTES).toHex();
      at = 0;
    }
    at += digits;
    return pool.slice(at - digits, at);
  };
}
