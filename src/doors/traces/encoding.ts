// Writes spans and attributes as OTLP's JSON: ids in hex, 64-bit numbers as decimal text, names in lowerCamelCase.

export type Attributes = Readonly<Record<string, string | number | undefined>>;

/** Returns the JSON of attributes, without those that are undefined. */
export const attributesOf = (attributes: Attributes): string =>
  `[${Object.entries(attributes)
    .flatMap(([key, value]) => (value === undefined ? [] : `{"key":${JSON.stringify(key)},"value":${textOf(value)}}`))
    .join(',')}]`;

const textOf = (value: string | number): string =>
  typeof value === 'number' ? `{"intValue":"${value}"}` : `{"stringValue":${JSON.stringify(value)}}`;

export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  /** The caller's span; undefined: it is the first of its trace. */
  readonly parentId: string | undefined;
  readonly state: string | undefined;
  readonly name: string;
  readonly startedAtMs: number;
  readonly durationMs: number;
  readonly isError: boolean;
  readonly attributes: Attributes;
}

const KIND_SERVER = 2;
const STATUS_ERROR = 2;

export function spanText(span: Span): string {
  const { traceId, spanId, parentId, state, name, startedAtMs, durationMs, isError, attributes } = span;
  const parent = parentId === undefined ? '' : `"parentSpanId":"${parentId}",`;
  const traceState = state === undefined ? '' : `"traceState":${JSON.stringify(state)},`;
  const status = isError ? `{"code":${STATUS_ERROR}}` : '{}';
  return `{"traceId":"${traceId}","spanId":"${spanId}",${parent}${traceState}"name":${JSON.stringify(name)},"kind":${KIND_SERVER},"startTimeUnixNano":"${nanoseconds(startedAtMs)}","endTimeUnixNano":"${nanoseconds(startedAtMs + durationMs)}","attributes":${attributesOf(attributes)},"status":${status}}`;
}

/** Milliseconds since 1970 in nanoseconds: a number can hold the microseconds alone. */
const nanoseconds = (ms: number): string => `${Math.round(ms * 1000)}000`;
