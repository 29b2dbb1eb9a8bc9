// Begins and ends spans: ids, the sampler's decision, times.

import type { Trace } from '../../calls/call.ts';
import type { Clock, RandomBytes } from '../../ground/runtime.ts';
import { type Attributes, createAttributesWriter, spanText } from './encoding.ts';
import type { Sampler, TraceSettings } from './settings.ts';

export interface TracerOptions {
  readonly settings: Pick<TraceSettings, 'sampler'>;
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

/** When something began, by both clocks. */
export interface Start {
  readonly atMs: number;
  readonly monotonicMs: number;
}

export interface Ended {
  readonly name: string;
  readonly isError: boolean;
  readonly attributes: Attributes;
}

export interface Tracer {
  now(): Start;
  /** Begins a span; undefined if the sampler leaves it out. */
  begin(parent: Trace | undefined): Begun | undefined;
  end(begun: Begun, start: Start, ended: Ended): void;
}

const TRACE_ID_BYTES = 16;
const SPAN_ID_BYTES = 8;

export function createTracer({ settings, clock, random, add }: TracerOptions): Tracer {
  const { sampler } = settings;
  const newId = createIds(random);
  const write = createAttributesWriter();
  return {
    now: () => ({ atMs: clock.nowMs(), monotonicMs: clock.monotonicMs() }),
    begin(parent) {
      const isDecided = sampler.isParentBased && parent !== undefined;
      if (isDecided ? !parent.sampled : sampler.ratio === 0) return undefined;
      const traceId = parent?.traceId ?? newId(TRACE_ID_BYTES);
      if (!isDecided && !isSampled(traceId, sampler)) return undefined;
      return { traceId, spanId: newId(SPAN_ID_BYTES), parent };
    },
    end({ traceId, spanId, parent }, { atMs: startedAtMs, monotonicMs }, { name, isError, attributes: given }) {
      const durationMs = clock.monotonicMs() - monotonicMs;
      const { parentId, state } = parent ?? {};
      const attributes = write(given);
      add(spanText({ traceId, spanId, parentId, state, name, startedAtMs, durationMs, isError, attributes }));
    },
  };
}

const DIGITS = 13; // 52 bits, which a number holds exactly

/** Returns whether a trace is in the sampler's part, by its id alone: all that see it decide alike. */
function isSampled(traceId: string, { ratio }: Sampler): boolean {
  return ratio === 1 || Number.parseInt(traceId.slice(-DIGITS), 16) / 16 ** DIGITS < ratio;
}

const POOL_BYTES = 4096;

/** Creates random ids in hex. From a pool: each call of the generator costs as much as a thousand bytes. */
function createIds(random: RandomBytes): (bytes: number) => string {
  let pool = random(POOL_BYTES);
  let at = 0;
  return (bytes) => {
    if (at + bytes > POOL_BYTES) {
      pool = random(POOL_BYTES);
      at = 0;
    }
    at += bytes;
    return pool.subarray(at - bytes, at).toHex();
  };
}
