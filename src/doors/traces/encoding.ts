// Writes spans as OTLP's JSON: ids in hex, 64-bit numbers as decimal text, names in lowerCamelCase. At once and as bytes:
// texts that wait to be sent would be most of what the garbage collector finds.

import type { Trace } from '../../calls/call.ts';
import { redactKeys } from '../../watch/redact.ts';

type Value = string | number;

export type Attributes = Readonly<Record<string, Value | undefined>>;

export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  /** The caller's span; undefined: it is the first of its trace. */
  readonly parent: Trace | undefined;
  readonly name: string;
  readonly startedAtMs: number;
  readonly durationMs: number;
  readonly isError: boolean;
  readonly attributes: Attributes;
}

/** Spans as the body of a request. */
export interface Batch {
  readonly body: Uint8Array<ArrayBuffer>;
  readonly count: number;
}

const utf8 = new TextEncoder();

/** The kind is SERVER, the code of the status ERROR. */
const AS_FINE = ',"kind":2,"status":{},"attributes":[';
const AS_ERROR = ',"kind":2,"status":{"code":2},"attributes":[';

const BYTES_FIRST = 16 * 1024;
/** What is free for ids, times and names of fields after any other text. */
const FREE_BYTES_MIN = 512;

const US_PER_S = 1_000_000;
const US_DIGITS = 6;
const ZERO = '0'.charCodeAt(0);

/** Writes the spans of one batch after another. */
export class SpanWriter {
  readonly #tail: Uint8Array;
  readonly #headBytes: number;
  /** What stands before all spans, and spans. */
  #bytes = new Uint8Array(BYTES_FIRST);
  #used = 0;
  #count = 0;
  /** The last that was written, as most spans begin and end in it. */
  #second = 0;
  #secondText = '0';
  readonly #name = createKnownTexts((key, name) => `,${JSON.stringify(key)}:${JSON.stringify(name)}`);
  readonly #attribute = createKnownTexts(attributeText);

  constructor(resource: Attributes, scope: Readonly<Record<string, string>>) {
    const written = Object.entries(resource).flatMap(([key, value]) =>
      value === undefined ? [] : attributeText(key, value),
    );
    this.#append(
      utf8.encode(
        `{"resourceSpans":[{"resource":{"attributes":[${written}]},"scopeSpans":[{"scope":${JSON.stringify(scope)},"spans":[`,
      ),
    );
    this.#headBytes = this.#used;
    this.#tail = utf8.encode(']}]}]}');
  }

  get count(): number {
    return this.#count;
  }

  get bytes(): number {
    return this.#used;
  }

  add({ traceId, spanId, parent, name, startedAtMs, durationMs, isError, attributes }: Span): void {
    this.#ascii(this.#count === 0 ? '{"traceId":"' : ',{"traceId":"');
    this.#ascii(traceId);
    this.#ascii('","spanId":"');
    this.#ascii(spanId);
    if (parent !== undefined) {
      this.#ascii('","parentSpanId":"');
      this.#ascii(parent.parentId);
    }
    this.#ascii('","startTimeUnixNano":"');
    this.#nanoseconds(startedAtMs);
    this.#ascii('","endTimeUnixNano":"');
    this.#nanoseconds(startedAtMs + durationMs);
    this.#ascii('"');
    const state = parent?.state;
    // With a key in it, it is left out: a part of it would be another one.
    if (state !== undefined && redactKeys(state) === state) {
      this.#append(utf8.encode(`,"traceState":${JSON.stringify(state)}`));
    }
    this.#append(this.#name('name', name));
    this.#ascii(isError ? AS_ERROR : AS_FINE);
    let between = '';
    for (const key in attributes) {
      const value = attributes[key];
      if (value === undefined) continue;
      this.#ascii(between);
      this.#append(this.#attribute(key, value));
      between = ',';
    }
    this.#ascii(']}');
    this.#count += 1;
  }

  /** Returns the spans that were added, and begins the next batch. */
  take(): Batch {
    this.#append(this.#tail);
    const batch = { body: this.#bytes.slice(0, this.#used), count: this.#count };
    this.#used = this.#headBytes;
    this.#count = 0;
    return batch;
  }

  #append(bytes: Uint8Array): void {
    const needed = this.#used + bytes.length + FREE_BYTES_MIN;
    if (needed > this.#bytes.length) {
      const larger = new Uint8Array(2 * needed);
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    this.#bytes.set(bytes, this.#used);
    this.#used += bytes.length;
  }

  /** Writes a short text without escapes. */
  #ascii(text: string): void {
    const { length } = text;
    for (let at = 0; at < length; at += 1) this.#bytes[this.#used + at] = text.charCodeAt(at);
    this.#used += length;
  }

  /** Writes milliseconds since 1970 in nanoseconds: a number can hold the microseconds alone. */
  #nanoseconds(ms: number): void {
    const us = Math.round(ms * 1000);
    const second = Math.floor(us / US_PER_S);
    if (second !== this.#second) this.#secondText = String(second);
    this.#second = second;
    this.#ascii(this.#secondText);
    let digits = us - second * US_PER_S;
    for (let at = this.#used + US_DIGITS - 1; at >= this.#used; at -= 1) {
      this.#bytes[at] = ZERO + (digits % 10);
      digits = Math.trunc(digits / 10);
    }
    this.#used += US_DIGITS;
    this.#ascii('000');
  }
}

/** Returns an attribute. A guard of one's own may give a key's id any type, which must not spoil the batch. */
function attributeText(key: string, value: Value): string {
  const shown = typeof value === 'object' ? Object.prototype.toString.call(value) : value; // it may have no text
  const text = Number.isSafeInteger(value)
    ? `{"intValue":"${value}"}`
    : `{"stringValue":${JSON.stringify(String(shown))}}`;
  return `{"key":${JSON.stringify(key)},"value":${text}}`;
}

/** How many values of an attribute are remembered: nearly all spans repeat what others have. */
const KNOWN_MAX = 256;

/** Creates the function that returns a text of few keys as bytes, from memory if it can. */
function createKnownTexts(textOf: (key: string, value: Value) => string) {
  const written = new Map<string, Map<Value, Uint8Array>>();
  return (key: string, value: Value): Uint8Array => {
    const values = written.get(key) ?? new Map<Value, Uint8Array>();
    if (values.size === 0) written.set(key, values);
    let text = values.get(value);
    if (text === undefined) {
      text = utf8.encode(textOf(key, value));
      if (values.size >= KNOWN_MAX) values.clear();
      values.set(value, text);
    }
    return text;
  };
}
