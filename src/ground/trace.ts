// Trace context: the `traceparent` of W3C Trace Context, level 1. What is malformed is ignored, as §3.2 says.

import { isObject } from './text.ts';

export interface Trace {
  /** 32 lowercase hex digits. */
  readonly traceId: string;
  /** 16 lowercase hex digits: the caller's span. */
  readonly parentId: string;
  readonly sampled: boolean;
}

/** Version, trace id, parent id, flags; versions after 00 may add parts. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const CHARS_MAX = 256;
const SAMPLED = 1;

export function parseTraceparent(text: unknown): Trace | undefined {
  if (typeof text !== 'string' || text.length > CHARS_MAX) return undefined;
  const [, version, traceId, parentId, flags = '', more] = TRACEPARENT.exec(text) ?? [];
  if (traceId === undefined || parentId === undefined || (version === '00' && more !== undefined)) return undefined;
  return { traceId, parentId, sampled: (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED };
}

/** The trace of a `_meta` value of any shape (MCP, SEP-414). */
export const metaTrace = (meta: unknown): Trace | undefined =>
  isObject(meta) ? parseTraceparent(meta.traceparent) : undefined;
