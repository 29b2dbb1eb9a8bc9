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
  /** Health's: random for each process. */
  readonly instance: string;
  readonly identify: Identify;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Log;
}

/** A span that has begun. */
export type Begun = Pick<Span, 'traceId' | 'spanId' | 'parent'>;

/** What is known of a span when it ends. */
export type Ended = Pick<Span, 'name' | 'isError' | 'attributes'>;

/** Creates the tracer. `add` adds a span that has ended. */
export function createTracer({ sampler }: TraceSettings, { clock, random }: TracesOptions, add: (span: Span) => void) {
  const ids = createIds(random);
  return {
    /** Begins a span; undefined if the sampler leaves it out. */
    begin(parent: Trace | undefined): Begun | undefined {
      if (parent === undefined) {
        const traceId = ids.traceId(sampler.ratio);
        return traceId === undefined ? undefined : { traceId, spanId: ids.spanId(), parent };
      }
      const isKept = sampler.isParentBased ? parent.sampled : isSampled(parent.traceId, sampler);
      return isKept ? { traceId: parent.traceId, spanId: ids.spanId(), parent } : undefined;
    },
    /** Ends a span that began at a time of the monotonic clock. */
    end({ traceId, spanId, parent }: Begun, startedMs: number, { name, isError, attributes }: Ended): void {
      const durationMs = clock.monotonicMs() - startedMs;
      const startedAtMs = clock.nowMs() - durationMs;
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

/** Creates random ids in hex. From a pool: each call of the generator costs as much as a thousand bytes. */
function createIds(random: RandomBytes) {
  let hex = '';
  let view: DataView = new DataView(new ArrayBuffer(0));
  let at = POOL_BYTES;

  /** Returns where the next bytes of the pool are. */
  function take(bytes: number): number {
    if (at + bytes > POOL_BYTES) {
      const pool = random(POOL_BYTES);
      hex = pool.toHex();
      view = new DataView(pool.buffer, pool.byteOffset);
      at = 0;
    }
    at += bytes;
    return at - bytes;
  }

  const idAt = (start: number, bytes: number): string => hex.slice(2 * start, 2 * (start + bytes));

  return {
    /** Returns the id of a new trace; undefined if it isn't in the sampler's part, as isSampled says, without its text. */
    traceId(ratio: number): string | undefined {
      const start = take(TRACE_ID_BYTES);
      const last52 = (view.getUint32(start + 8) % 2 ** 20) * 2 ** 32 + view.getUint32(start + 12);
      return last52 / 2 ** 52 < ratio ? idAt(start, TRACE_ID_BYTES) : undefined;
    },
    spanId: (): string => idAt(take(SPAN_ID_BYTES), SPAN_ID_BYTES),
  };
}
