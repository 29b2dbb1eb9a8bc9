// What goes over the socket: well-formed requests in one piece or many, requests whose framing is a lie, and bytes.

import fc from 'fast-check';
import { type HttpRequest, oddHeaderValue, requests } from './messages.ts';
import type { PlantedSecrets } from './planted-secrets.ts';

export interface Input {
  /** Bytes, one character each, written one after the other. */
  readonly chunks: readonly string[];
  readonly pauseMs: number;
  /**
   * `response`: well-formed, so that one response must come. `any`: whatever comes. `leave`: the client goes away at once.
   */
  readonly expect: 'response' | 'any' | 'leave';
  readonly isHead: boolean;
}

const lines = (headers: HttpRequest['headers']) => headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');

const headOf = ({ method, target, headers }: HttpRequest, framing: string) =>
  `${method} ${target} HTTP/1.1\r\nHost: localhost\r\n${lines(headers)}${framing}\r\n`;

const chunked = (body: string) => `${body === '' ? '' : `${body.length.toString(16)}\r\n${body}\r\n`}0\r\n\r\n`;

function withEraMembers(request: HttpRequest, inChunks: boolean): string {
  if (request.body === null) return headOf(request, '');
  return inChunks
    ? headOf(request, 'Transfer-Encoding: chunked\r\n') + chunked(request.body)
    : headOf(request, `Content-Length: ${request.body.length}\r\n`) + request.body;
}

/** Where to cut a text: anywhere in it. */
const cut = (text: string, places: readonly number[]): string[] => {
  const ends = places.map((place) => place % (text.length + 1)).sort((a, b) => a - b);
  return [0, ...ends].map((start, index) => text.slice(start, ends[index] ?? text.length));
};

const wellFormed = (request: fc.Arbitrary<HttpRequest>): fc.Arbitrary<Input> =>
  fc.tuple(request, fc.integer({ min: 0, max: 9 })).map(([made, form]) => ({
    chunks: [withEraMembers(made, form === 0)],
    pauseMs: 0,
    expect: 'response',
    isHead: made.method === 'HEAD',
  }));

/** Slow headers and slow bodies: a few bytes, a pause, a few more. */
const slow = (request: fc.Arbitrary<HttpRequest>): fc.Arbitrary<Input> =>
  fc
    .tuple(request, fc.array(fc.nat(2000), { minLength: 1, maxLength: 6 }), fc.constantFrom(0, 1, 5), fc.boolean())
    .map(([made, places, pauseMs, inChunks]) => ({
      chunks: cut(withEraMembers(made, inChunks), places),
      pauseMs,
      expect: 'response',
      isHead: made.method === 'HEAD',
    }));

const left = (request: fc.Arbitrary<HttpRequest>): fc.Arbitrary<Input> =>
  fc.tuple(request, fc.nat(2000), fc.boolean()).map(([made, place, whole]) => {
    const text = withEraMembers(made, false);
    return {
      chunks: [whole ? text : text.slice(0, place % (text.length + 1))],
      pauseMs: 0,
      expect: 'leave',
      isHead: false,
    };
  });

/** Header lines that contradict each other, or HTTP. `$` stands for the body's length. */
const FRAMINGS = [
  'Content-Length: $\r\nContent-Length: 0\r\n',
  'Content-Length: $, $\r\n',
  'Content-Length: +$\r\n',
  'Content-Length: 0x$\r\n',
  'Content-Length: -1\r\n',
  'Content-Length: 18446744073709551618\r\n',
  'Content-Length:\r\n',
  'Content-Length : $\r\n',
  'Content-Length: 1$\r\n',
  'Content-Length: 0\r\n',
  'Content-Length: $\r\nTransfer-Encoding: chunked\r\n',
  'Transfer-Encoding: chunked\r\nContent-Length: $\r\n',
  'Transfer-Encoding: xchunked\r\n',
  'Transfer-Encoding: chunked, identity\r\n',
  'Transfer-Encoding: gzip, chunked\r\n',
  'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n',
  'Transfer-Encoding:\r\n chunked\r\n',
  'Transfer-Encoding: \x0bchunked\r\n',
  'Transfer-Encoding : chunked\r\n',
  'Transfer-Encoding: chunked\nContent-Length: $\r\n',
  'X-Folded: a\r\n b\r\nContent-Length: $\r\n',
  'Host: evil.example\r\nContent-Length: $\r\n',
  'Content-Length: $\r\nExpect: 100-continue\r\n',
  'Content-Length: $\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n',
  'Content-Length: $\r\nConnection: close\r\n',
  'Content-Type: text/plain\r\nContent-Length: $\r\n',
  ': no name\r\nContent-Length: $\r\n',
  'no colon\r\nContent-Length: $\r\n',
  'X-NUL: a\0b\r\nContent-Length: $\r\n',
];

const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n';

const misframed = (request: fc.Arbitrary<HttpRequest>, planted: PlantedSecrets): fc.Arbitrary<Input> => {
  const flood = fc
    .tuple(fc.constantFrom(90, 250, 5000), oddHeaderValue(planted.secrets))
    .map(([count, value]) => `X-Flood: ${value.slice(0, 100)}\r\n`.repeat(count));
  const framing = fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom(...FRAMINGS) },
    { weight: 1, arbitrary: flood.map((many) => `${many}Content-Length: $\r\n`) },
  );
  return fc.tuple(request, framing, fc.boolean(), fc.boolean()).map(([made, form, inChunks, smuggle]) => {
    const body = made.body ?? '';
    return {
      chunks: [
        headOf(made, form.replaceAll('$', String(body.length))) +
          (inChunks ? chunked(body) : body) +
          (smuggle ? SMUGGLED : ''),
      ],
      pauseMs: 0,
      expect: 'any',
      isHead: false,
    };
  });
};

const STARTS = [
  'GET / HTTP/1.0\r\n\r\n',
  'GET / HTTP/9.9\r\n\r\n',
  'GET /\r\n',
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'GET http://evil.example/mcp/health HTTP/1.1\r\nHost: localhost\r\n\r\n',
  'CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n',
  'TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n',
  'BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n',
  'OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n',
  '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
  'GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n',
];

const byte = fc.nat(255).map((code) => String.fromCharCode(code));

/** Requests with bytes inserted, removed and changed; and bytes that never were a request. */
const garbled = (request: fc.Arbitrary<HttpRequest>): fc.Arbitrary<Input> => {
  const start = fc.oneof(
    { weight: 4, arbitrary: request.map((made) => withEraMembers(made, false)) },
    { weight: 1, arbitrary: fc.constantFrom(...STARTS) },
    { weight: 1, arbitrary: fc.string({ unit: byte, maxLength: 300 }) },
  );
  const edit = fc.tuple(fc.nat(2000), fc.nat(3), fc.string({ unit: byte, maxLength: 3 }));
  return fc.tuple(start, fc.array(edit, { maxLength: 6 })).map(([original, edits]) => {
    let text = original;
    for (const [at, removed, inserted] of edits) {
      const place = at % (text.length + 1);
      text = text.slice(0, place) + inserted + text.slice(place + removed);
    }
    return { chunks: [text], pauseMs: 0, expect: 'any', isHead: false };
  });
};

/** A response to HEAD has no body: where the server may not understand it as HEAD, GET takes its place. */
const withoutHead = (request: fc.Arbitrary<HttpRequest>): fc.Arbitrary<HttpRequest> =>
  request.map((made) => (made.method === 'HEAD' ? { ...made, method: 'GET' } : made));

/** `sessions`: the paths of event streams that stay open. */
export function inputs(planted: PlantedSecrets, sessions: readonly string[]): fc.Arbitrary<Input> {
  const request = requests(planted, sessions);
  return fc.oneof(
    { weight: 40, arbitrary: wellFormed(request) },
    { weight: 2, arbitrary: slow(request) },
    { weight: 2, arbitrary: left(request) },
    { weight: 3, arbitrary: misframed(withoutHead(request), planted) },
    { weight: 3, arbitrary: garbled(withoutHead(request)) },
  );
}
