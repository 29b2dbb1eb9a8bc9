// Begins and ends spans: ids, the sampler's decision, times.

import type { Trace } from '../../calls/call.ts';
import type { Clock, RandomBytes } from '../../ground/runtime.ts';
import { type Attributes, createAttributesWriter, spanText } from './encoding.ts';
import type { Sampler, TraceSettings } from './settings.ts';

export interface TracerOptions {
  readonly settings: TraceSettings;
  readonly clock: Clock;
  readonly random: RandomBytes;
  /** Adds a span that has ended, as JSON. */
  readonly add: (span: string) => void;
}

/** A span that has begun. */
export interface Begun {
  readonly traceId: string;
  readonly spanId: string;
  readonly parent: Trace | undefined;
}

export interface Ended {
  readonly name: string;
  readonly isError: boolean;
  readonly attributes: Attributes;
}

export interface Tracer {
  /** Begins a span; undefined if the sampler leaves it out. */
  begin(parent: Trace | undefined): Begun | undefined;
  /** Ends a span that began at a time of the monotonic clock. */
  end(begun: Begun, startedMs: number, ended: Ended): void;
}

export function createTracer({ settings, clock, random, add }: TracerOptions): Tracer {
  const { sampler } = settings;
  const ids = createIds(random);
  const write = createAttributesWriter();
  return {
    begin(parent) {
      if (parent === undefined) {
        const traceId = ids.traceId(sampler.ratio);
        return traceId === undefined ? undefined : { traceId, spanId: ids.spanId(), parent };
      }
      const isKept = sampler.isParentBased ? parent.sampled : isSampled(parent.traceId, sampler);
      return isKept ? { traceId: parent.traceId, spanId: ids.spanId(), parent } : undefined;
    },
    end({ traceId, spanId, parent }, startedMs, { name, isError, attributes: given }) {
      const durationMs = clock.monotonicMs() - startedMs;
      const startedAtMs = clock.nowMs() - durationMs;
      const { parentId, state } = parent ?? {};
      const attributes = write(given);
      add(spanText({ traceId, spanId, parentId, state, name, startedAtMs, durationMs, isError, attributes }));
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
  let pool = random(POOL_BYTES);
  let view = new DataView(pool.buffer, pool.byteOffset);
  let at = 0;

  /** Returns where the next bytes of the pool are. */
  function take(bytes: number): number {
    if (at + bytes > POOL_BYTES) {
      pool = random(POOL_BYTES);
      view = new DataView(pool.buffer, pool.byteOffset);
      at = 0;
    }
    at += bytes;
    return at - bytes;
  }

  return {
    /** Returns the id of a new trace; undefined if it isn't in the sampler's part, as isSampled says, without its text. */
    traceId(ratio: number): string | undefined {
      const start = take(TRACE_ID_BYTES);
      const last52 = (view.getUint32(start + 8) % 2 ** 20) * 2 ** 32 + view.getUint32(start + 12);
      return last52 / 2 ** 52 < ratio ? pool.subarray(start, start + TRACE_ID_BYTES).toHex() : undefined;
    },
    spanId(): string {
      const start = take(SPAN_ID_BYTES);
      return pool.subarray(start, start + SPAN_ID_BYTES).toHex();
    },
  };
}
