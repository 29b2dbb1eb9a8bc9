// Reads HTTP answers off a socket: as many as came, whole ones only (RFC 9112 §6, §7).

export interface RawAnswer {
  readonly status: number;
  /** Names in lower case; a repeated one keeps its last value. */
  readonly headers: ReadonlyMap<string, string>;
  /** Bytes, one character each. */
  readonly body: string;
}

export interface Reading {
  readonly answers: readonly RawAnswer[];
  /** The bytes that don't make a whole answer yet. */
  readonly rest: string;
}

/** `isHead`: the answers have no bodies, whatever their headers say. */
export function readAnswers(received: string, isHead: boolean): Reading {
  const answers: RawAnswer[] = [];
  let rest = received;
  for (;;) {
    const found = readOne(rest, isHead);
    if (found === null) return { answers, rest };
    if (found.answer.status >= 200) answers.push(found.answer);
    rest = rest.slice(found.length);
  }
}

function readOne(text: string, isHead: boolean): { answer: RawAnswer; length: number } | null {
  const headEnd = text.indexOf('\r\n\r\n');
  if (headEnd === -1) return null;
  const [statusLine = '', ...headerLines] = text.slice(0, headEnd).split('\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3})( |$)/.exec(statusLine)?.[1]);
  if (Number.isNaN(status)) throw new Error(`not an answer: ${JSON.stringify(text.slice(0, 200))}`);
  const headers = new Map(
    headerLines.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
    }),
  );
  const start = headEnd + 4;
  if (isHead || status < 200 || status === 204 || status === 304) {
    return { answer: { status, headers, body: '' }, length: start };
  }
  if (headers.get('transfer-encoding') === 'chunked') {
    const read = readChunks(text, start);
    return read === null ? null : { answer: { status, headers, body: read.body }, length: read.end };
  }
  const end = start + Number(headers.get('content-length') ?? 0);
  return text.length < end ? null : { answer: { status, headers, body: text.slice(start, end) }, length: end };
}

function readChunks(text: string, start: number): { body: string; end: number } | null {
  let body = '';
  let at = start;
  for (;;) {
    const lineEnd = text.indexOf('\r\n', at);
    if (lineEnd === -1) return null;
    const size = Number.parseInt(text.slice(at, lineEnd), 16);
    const next = lineEnd + 2 + size + 2;
    if (text.length < next) return null;
    if (size === 0) return { body, end: next };
    body += text.slice(lineEnd + 2, next - 2);
    at = next;
  }
}
