// Writes spans and attributes as OTLP's JSON: ids in hex, 64-bit numbers as decimal text, names in lowerCamelCase.

export type Attributes = Readonly<Record<string, string | number | undefined>>;

/** How many values of an attribute are remembered: nearly all spans repeat what others have. */
const KNOWN_MAX = 1000;

/** Creates the function that writes attributes, without those that are undefined. */
export function createAttributesWriter(): (attributes: Attributes) => string {
  const written = new Map<string, Map<string | number, string>>();
  function write(key: string, value: string | number): string {
    const values = written.get(key) ?? new Map<string | number, string>();
    if (values.size === 0) written.set(key, values);
    let text = values.get(value);
    if (text === undefined) {
      text = `{"key":${JSON.stringify(key)},"value":${textOf(value)}}`;
      if (values.size >= KNOWN_MAX) values.clear();
      values.set(value, text);
    }
    return text;
  }
  return (attributes) => {
    let all = '';
    for (const key in attributes) {
      const value = attributes[key];
      if (value !== undefined) all += all === '' ? write(key, value) : `,${write(key, value)}`;
    }
    return `[${all}]`;
  };
}

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
  /** Their JSON. */
  readonly attributes: string;
}

const KIND_SERVER = 2;
const STATUS_ERROR = 2;

export function spanText(span: Span): string {
  const { traceId, spanId, parentId, state, name, startedAtMs, durationMs, isError, attributes } = span;
  const parent = parentId === undefined ? '' : `"parentSpanId":"${parentId}",`;
  const traceState = state === undefined ? '' : `"traceState":${JSON.stringify(state)},`;
  const status = isError ? `{"code":${STATUS_ERROR}}` : '{}';
  return `{"traceId":"${traceId}","spanId":"${spanId}",${parent}${traceState}"name":${JSON.stringify(name)},"kind":${KIND_SERVER},"startTimeUnixNano":"${nanoseconds(startedAtMs)}","endTimeUnixNano":"${nanoseconds(startedAtMs + durationMs)}","attributes":${attributes},"status":${status}}`;
}

/** Milliseconds since 1970 in nanoseconds: a number can hold the microseconds alone. */
const nanoseconds = (ms: number): string => `${Math.round(ms * 1000)}000`;
