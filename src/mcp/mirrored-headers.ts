// Headers that repeat parts of the body (2026-07-28, Streamable HTTP, "Request Metadata"), for proxies that route
// without reading bodies. A server must refuse a request in which they differ.

import type { HeaderParam } from '../calls/header-params.ts';
import type { JsonObject } from '../ground/text.ts';

export type HeaderReader = Pick<Headers, 'get'>;

const ENCODED = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/;
// An HTTP field value (RFC 9110 §5.5) without obs-text that does not look encoded.
const PLAIN = /^(?!=\?base64\?.*\?=$)[\x20-\x7e\t]*$/s;

const DECIMAL = /^-?\d+(\.\d+)?$/;

export const mirrors = (header: string | null, value: string): boolean =>
  header === value ? PLAIN.test(value) : header !== null && decode(header) === value;

export const mismatchMessage = (header: string): string =>
  `Header mismatch: ${header} is missing or differs from the body`;

/** Null for a value that clients may not send. */
function decode(header: string): string | null {
  const trimmed = header.trim();
  if (PLAIN.test(trimmed)) return trimmed;
  const base64 = ENCODED.exec(trimmed)?.[1];
  if (base64 === undefined || base64.length % 4 !== 0) return null;
  try {
    const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null; // bytes that are not UTF-8
  }
}

/** The first header that is missing, unexpected or different; undefined if none is. */
export function mismatchedParam(
  params: readonly HeaderParam[],
  input: JsonObject,
  headers: HeaderReader,
): string | undefined {
  const given = (field: string) => (Object.hasOwn(input, field) ? input[field] : undefined);
  return params.find(({ header, field }) => !agrees(headers.get(header), given(field)))?.header;
}

function agrees(header: string | null, value: unknown): boolean {
  if (value === undefined || value === null) return header === null;
  if (typeof value === 'string') return mirrors(header, value);
  if (typeof value === 'boolean') return mirrors(header, String(value));
  // Compared as numbers: 42.0 is 42.
  if (typeof value === 'number') {
    const text = decode(header ?? '') ?? '';
    return DECIMAL.test(text) && Number(text) === value;
  }
  return header === null; // not a primitive: the schema will refuse it
}
