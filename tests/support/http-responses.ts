// Reads HTTP responses off a socket: as many as came, whole ones only (RFC 9112 §6, §7).

export interface ParsedResponse {
  readonly status: number;
  /** Names in lower case; a repeated one keeps its last value. */
  readonly headers: ReadonlyMap<string, string>;
  /** Its status line and headers as they came. */
  readonly head: readonly string[];
  /** Bytes, one character each. */
  readonly body: string;
}

export interface Reading {
  readonly responses: readonly ParsedResponse[];
  /** The bytes that don't make a whole response yet. */
  readonly rest: string;
}

/** `isHead`: the responses have no bodies, whatever their headers say. */
export function parseResponses(received: string, isHead: boolean): Reading {
  const responses: ParsedResponse[] = [];
  let rest = received;
  for (;;) {
    const found = readOne(rest, isHead);
    if (found === null) return { responses, rest };
    if (found.response.status >= 200) responses.push(found.response);
    rest = rest.slice(found.length);
  }
}

function readOne(text: string, isHead: boolean): { response: ParsedResponse; length: number } | null {
  const headEnd = text.indexOf('\r\n\r\n');
  if (headEnd === -1) return null;
  const head = text.slice(0, headEnd).split('\r\n');
  const [statusLine = '', ...headerLines] = head;
  const status = Number(/^HTTP\/1\.1 (\d{3})( |$)/.exec(statusLine)?.[1]);
  if (Number.isNaN(status)) throw new Error(`not a response: ${JSON.stringify(text.slice(0, 200))}`);
  const headers = new Map(
    headerLines.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
    }),
  );
  const start = headEnd + 4;
  if (isHead || status < 200 || status === 204 || status === 304) {
    return { response: { status, headers, head, body: '' }, length: start };
  }
  if (headers.get('transfer-encoding') === 'chunked') {
    const read = readChunks(text, start);
    return read === null ? null : { response: { status, headers, head, body: read.body }, length: read.end };
  }
  const end = start + Number(headers.get('content-length') ?? 0);
  return text.length < end ? null : { response: { status, headers, head, body: text.slice(start, end) }, length: end };
}

function readChunks(text: string, start: number): { body: string; end: number } | null {
  let body = '';
  let at = start;
  for (;;) {
    const lineEnd = text.indexOf('\r\n', at);
    if (lineEnd === -1) return null;
    const size = Number.parseInt(text.slice(at, lineEnd), 16);
    if (Number.isNaN(size)) return null; // cut off: of bytes that are no HTTP, behind an open stream, the runtime says so in it
    const next = lineEnd + 2 + size + 2;
    if (text.length < next) return null;
    if (size === 0) return { body, end: next };
    body += text.slice(lineEnd + 2, next - 2);
    at = next;
  }
}
