// Responses that are read over time: the framing of events, what a stream takes, and what becomes of one that nobody
// reads.

import { describe, expect, test } from 'bun:test';
import { createPool } from '../../src/ground/limits/pool.ts';
import { nextTurn } from '../../src/ground/runtime.ts';
import { createLog } from '../../src/start/package/index.ts';
import { RequestContext } from '../../src/web/context.ts';
import { createStreams, eventText } from '../../src/web/stream.ts';
import { testClock } from '../support/clock.ts';
import { NO_CONNECTION } from '../support/test-app.ts';

const KIB = 1024;
const MIB = 1024 * 1024;

test('an event is its name, its data and an empty line', () => {
  expect(eventText('endpoint', '/messages')).toBe('event: endpoint\ndata: /messages\n\n');
});

test.each(['a\nb', 'a\rb', 'a\r\ndata: b'])(
  'a field with a line break (%j) is refused: it would forge an event',
  (text) => {
    expect(() => eventText('message', text)).toThrow('line break');
    expect(() => eventText(text, '')).toThrow('line break');
  },
);

test('what some clients take for the end of a line is escaped in the data', () => {
  const text = 'a\u2028b\u2029c\u0085d';
  const event = eventText('message', JSON.stringify({ text }));
  expect(event).toBe('event: message\ndata: {"text":"a\\u2028b\\u2029c\\u0085d"}\n\n');
  expect(JSON.parse(event.split('data: ')[1] ?? '')).toEqual({ text });
});

/** Streams outside of any server, as their owner and their clients have them. */
function streamsOn(total = 16 * MIB) {
  const clock = testClock();
  const pool = createPool({ total }, clock);
  const streams = createStreams(pool, clock, createLog({ level: 'error', clock, write: async () => {} }));
  const request = new Request('http://localhost/sse');
  const address = { urlUnder: () => 'http://localhost' };
  const server = {
    production: false,
    trustProxy: 0,
    ownTls: false,
    begun() {},
    over() {},
    newRequestId: () => 'r',
    address,
  };
  const context = new RequestContext(server, NO_CONNECTION, request);

  function open() {
    const seen = { ended: 0 };
    const stream = streams.open(context, () => {
      seen.ended += 1;
    });
    return {
      stream,
      seen,
      send: (data: string) => stream.send('message', data),
      offer: (data: string) => stream.offer('message', data),
      ...readerOf(stream.response),
    };
  }

  /** How many bytes are held, measured by what still finds room, at once. */
  function heldBytes(): number {
    const probe = pool(() => {});
    let free = 0;
    for (let step = total; step >= 1; step = Math.floor(step / 2)) if (probe.hold(free + step)) free += step;
    probe.hold(0);
    return total - free;
  }

  return { clock, open, heldBytes, text: (text: string) => streams.text(context, text, {}) };
}

function readerOf({ body }: Response) {
  const reader = body?.getReader();
  if (reader === undefined) throw new Error('no body');
  return {
    reader,
    /** Reads at least so many bytes, and returns how many. */
    async read(bytes: number): Promise<number> {
      let got = 0;
      while (got < bytes) got += (await reader.read()).value?.length ?? Number.POSITIVE_INFINITY;
      return got;
    },
    async readToEnd(): Promise<string> {
      const chunks: Uint8Array[] = [];
      for (let read = await reader.read(); !read.done; read = await reader.read()) chunks.push(read.value);
      return new TextDecoder().decode(Buffer.concat(chunks));
    },
  };
}

const texts = (count: number, chars: number) => Array.from({ length: count }, () => 'x'.repeat(chars));
const messageOf = (data: string) => eventText('message', data);
const EMPTY_MESSAGE = messageOf('').length;

test.each([
  ['nothing', ''],
  ...[-1, 0, 1].map((more) => [`a piece and ${more}`, 'x'.repeat(16 * KIB - EMPTY_MESSAGE + more)] as const),
  ['characters of two bytes', 'ü'.repeat(50_000)],
  ['of three', `x${'€'.repeat(50_000)}`],
  ['of four, which are two in JavaScript', '🔑'.repeat(50_000)],
  ['of four, at other places', `x${'🔑'.repeat(50_000)}`],
  ['all kinds', 'xü€🔑'.repeat(20_000)],
])('what is sent arrives whole and in order: %s', async (_what, text) => {
  const { open, heldBytes } = streamsOn();
  const { stream, send, readToEnd } = open();
  const sent = [text, '{}', text, text, '{}'];
  for (const data of sent) expect(send(data)).toBe(true);
  stream.close();
  expect(await readToEnd()).toBe(sent.map(messageOf).join(''));
  expect(heldBytes()).toBe(0);
});

describe('a stream takes', () => {
  test('an event as large as the pool, and none that is larger; what is not read finds no room beside it', async () => {
    const { open } = streamsOn(MIB);
    const { send, read } = open();
    expect(send('x'.repeat(MIB + 16 * KIB))).toBe(false);
    expect(send('€'.repeat(MIB / 2))).toBe(false);
    expect(send('x'.repeat(MIB))).toBe(true);
    expect(send('x'.repeat(100_000))).toBe(false);
    await read(MIB + EMPTY_MESSAGE);
    expect(send('x'.repeat(100_000))).toBe(true);
  });

  test('small events after it, but not endlessly', () => {
    const { open, heldBytes } = streamsOn(MIB);
    const { send } = open();
    expect(send('x'.repeat(MIB))).toBe(true);
    const small = texts(1000, 100).map(send);
    expect(small.indexOf(false)).toBeWithin(50, 500);
    expect(small.lastIndexOf(true)).toBe(small.indexOf(false) - 1);
    expect(heldBytes()).toBeLessThanOrEqual(MIB);
  });

  test('progress only while little is unread', async () => {
    const { open } = streamsOn();
    const { offer, send, read, stream, readToEnd } = open();
    for (const text of texts(100, 5000)) offer(text);
    expect(send('last')).toBe(true);
    const got = await read(60_000);
    offer('after');
    stream.close();
    const rest = await readToEnd();
    expect(got + rest.length).toBeWithin(60_000, 75_000);
    expect(rest).toEndWith(messageOf('last') + messageOf('after'));
  });

  test('ordinary responses even when others use the whole pool', () => {
    const { open } = streamsOn(MIB);
    expect(open().send('x'.repeat(MIB + 16 * KIB - EMPTY_MESSAGE))).toBe(true);
    const other = open();
    expect(other.send('x'.repeat(100_000))).toBe(false);
    expect(other.send('x'.repeat(15_000))).toBe(true);
    expect(other.send('x'.repeat(15_000))).toBe(false);
    expect(other.send('{}')).toBe(true);
  });
});

describe('the pool', () => {
  test('has what is unread, and nothing of a stream that was read, is gone or was cut off', async () => {
    const { open, heldBytes } = streamsOn();
    const all = [open(), open(), open(), open()];
    for (const { send } of all) for (const text of texts(5, 100_000)) send(text);
    const each = heldBytes() / 4;
    expect(each).toBeWithin(480_000, 500_000);
    const [read, gone, cut, rest] = all;
    const got = (await read?.read(305_000)) ?? 0;
    expect(heldBytes() - 3 * each).toBeWithin(180_000, 200_000);
    await read?.read(5 * (EMPTY_MESSAGE + 100_000) - got);
    expect(heldBytes()).toBe(3 * each);
    await gone?.reader.cancel();
    cut?.stream.cut();
    expect((await cut?.reader.read())?.done).toBe(true);
    expect(heldBytes()).toBe(each);
    rest?.stream.cut();
    expect(heldBytes()).toBe(0);
    for (const { seen } of [gone, cut, rest].filter((one) => one !== undefined)) expect(seen.ended).toBe(1);
  });

  test('has nothing of an event that found no room', () => {
    const { open, heldBytes } = streamsOn(MIB);
    const { send } = open();
    send('x'.repeat(100_000));
    const before = heldBytes();
    // Room for as many bytes as it has characters, none for the three that each takes.
    for (let times = 0; times < 100; times += 1) expect(send('€'.repeat(500_000))).toBe(false);
    expect(heldBytes()).toBe(before);
  });

  test('cuts off the stream that was not read for the longest time, once another needs the room', async () => {
    const { clock, open } = streamsOn(MIB);
    const [still, reading] = [open(), open()];
    still.send('x'.repeat(500_000));
    reading.send('x'.repeat(500_000));
    clock.advance(1001);
    await reading.read(20_000);
    const other = open();
    expect(other.send('x'.repeat(400_000))).toBe(true);
    expect([still.seen.ended, reading.seen.ended]).toEqual([1, 0]);
    expect((await still.reader.read()).done).toBe(true);
    expect(other.send('x'.repeat(400_000))).toBe(false);
  });
});

describe('a large text', () => {
  const LARGE = 'xü€🔑'.repeat(50_000);

  test('arrives whole, and is held until it is read', async () => {
    const { text, heldBytes } = streamsOn();
    const response = text(LARGE);
    expect(heldBytes()).toBe(Buffer.byteLength(LARGE));
    expect(await response?.text()).toBe(LARGE);
    expect(heldBytes()).toBe(0);
  });

  test('is refused without room, and cut off with an error when others need its own', async () => {
    const { text, clock, heldBytes } = streamsOn(0.7 * MIB);
    const first = text(LARGE);
    const held = heldBytes();
    expect(text(LARGE)).toBeNull();
    expect(heldBytes()).toBe(held);
    clock.advance(1001);
    expect(text(LARGE)).not.toBeNull();
    await expect(first?.text() ?? Promise.resolve()).rejects.toThrow('reads too slowly');
  });
});

describe('a stream that this side ends', () => {
  test('takes no more, and what it took can be read to the end', async () => {
    const { open, heldBytes } = streamsOn();
    const { stream, send, offer, readToEnd, seen } = open();
    send('x'.repeat(200_000));
    stream.close();
    expect(seen.ended).toBe(1);
    expect(send('')).toBe(false);
    offer('');
    expect(await readToEnd()).toBe(messageOf('x'.repeat(200_000)));
    expect([heldBytes(), seen.ended]).toEqual([0, 1]);
  });

  test('is cut off, too, when its end is not read', async () => {
    const { clock, open } = streamsOn();
    const { stream, send, reader, seen } = open();
    send('last');
    stream.close();
    expect(seen.ended).toBe(1);
    clock.advance(15_000);
    await nextTurn(); // a run ends before the next pause
    clock.advance(15_000);
    expect((await reader.read()).done).toBe(true);
  });
});

test('a quiet stream gets a comment every 15 seconds; one of which something stays unread for 15 is cut off', async () => {
  const { clock, open } = streamsOn();
  const [quiet, unread, slow] = [open(), open(), open()];
  unread.send('{}');
  slow.send('x'.repeat(40_000));
  clock.advance(15_000);
  expect(new TextDecoder().decode((await quiet.reader.read()).value)).toBe(': keepalive\n\n');
  await slow.read(16_000);
  clock.advance(15_000);
  expect([quiet.seen.ended, unread.seen.ended, slow.seen.ended]).toEqual([0, 1, 0]);
  for (const { stream } of [quiet, slow]) stream.cut();
});
