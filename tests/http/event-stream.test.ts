// Server-sent events: their framing, what a stream takes, and what becomes of one that nobody reads.

import { describe, expect, test } from 'bun:test';
import { EVENT_BYTES_MAX, eventText } from '../../src/http/event-stream.ts';
import { createEventStreams } from '../../src/http/event-streams.ts';
import { encodePieces, PIECE_BYTES } from '../../src/http/pieces.ts';
import { createSendBudget } from '../../src/http/send-budget.ts';
import { createLog } from '../../src/log.ts';
import { testClock } from '../support/clock.ts';
import { NO_CONNECTION } from '../support/peer.ts';
import { until } from '../support/until.ts';

const MiB = 1024 * 1024;

test('an event is its name, its data and an empty line', () => {
  expect(eventText({ event: 'endpoint', data: '/messages' })).toBe('event: endpoint\ndata: /messages\n\n');
  expect(eventText({ data: '{}' })).toBe('data: {}\n\n');
});

test.each(['a\nb', 'a\rb', 'a\r\ndata: b'])(
  'a field with a line break (%j) is refused: it would forge an event',
  (text) => {
    expect(() => eventText({ data: text })).toThrow('line break');
    expect(() => eventText({ event: text, data: '' })).toThrow('line break');
  },
);

test.each([
  ['nothing', ''],
  ['one byte less than a piece', 'x'.repeat(PIECE_BYTES - 1)],
  ['a piece', 'x'.repeat(PIECE_BYTES)],
  ['one byte more', 'x'.repeat(PIECE_BYTES + 1)],
  ['characters of two bytes', 'ü'.repeat(3 * PIECE_BYTES)],
  ['of three', '€'.repeat(2 * PIECE_BYTES)],
  ['of four, which are two in JavaScript', `x${'🔑'.repeat(2 * PIECE_BYTES)}`],
  ['half of one', `${'x'.repeat(2 * PIECE_BYTES)}\ud800`],
])('text in pieces is the same text: %s', (_what, text) => {
  const pieces = encodePieces(text);
  expect(Buffer.concat(pieces).equals(Buffer.from(new TextEncoder().encode(text)))).toBe(true);
  for (const piece of pieces) {
    expect(piece.length).toBeLessThanOrEqual(PIECE_BYTES);
    expect(piece.buffer.byteLength - piece.length).toBeLessThanOrEqual(3); // else a small rest keeps a large buffer
  }
});

/** A stream outside of any server, and the budget it shares with others. */
function openStream(budgetBytes?: number) {
  const clock = testClock();
  const log = createLog({ level: 'error', clock, write: async () => {} });
  const budget = createSendBudget(clock, log, budgetBytes);
  const streams = createEventStreams(clock, budget);
  const open = () => {
    const seen = { ended: 0 };
    const stream = streams.open(
      {
        request: new Request('http://localhost/sse'),
        path: '/sse',
        requestId: 'r',
        secure: false,
        peer: NO_CONNECTION,
      },
      () => {
        seen.ended += 1;
      },
    );
    const reader = stream.response.body?.getReader();
    if (reader === undefined) throw new Error('no body');
    async function read(bytes: number): Promise<number> {
      let got = 0;
      while (got < bytes) got += (await reader?.read())?.value?.length ?? Number.POSITIVE_INFINITY;
      return got;
    }
    return {
      ...stream,
      get lastMovedMs() {
        return stream.lastMovedMs;
      },
      reader,
      read,
      seen,
    };
  };
  return { clock, budget, open, ...open() };
}

const events = (count: number, bytes: number) => Array.from({ length: count }, () => ({ data: 'x'.repeat(bytes) }));

describe('a stream takes', () => {
  test('an event of nearly 1 MiB, none that is larger, and others after it', () => {
    const { send } = openStream();
    expect(send({ data: 'x'.repeat(EVENT_BYTES_MAX) })).toBe('too_large');
    expect(send({ data: '€'.repeat(EVENT_BYTES_MAX / 2) })).toBe('too_large');
    expect(send({ data: 'x'.repeat(EVENT_BYTES_MAX - 20_000) })).toBe('sent');
    expect(send({ data: '{}' })).toBe('sent');
  });

  test('4 MiB that nobody reads, then only small events, then none', () => {
    const { send, budget } = openStream();
    const sent = events(100, 100_000).map(send);
    expect(sent.lastIndexOf('sent')).toBe(40);
    expect(budget.heldBytes).toBeLessThanOrEqual(4 * MiB);
    const small = events(1000, 100).map(send);
    expect(small.indexOf('no_room')).toBeWithin(50, 500);
    expect(small.lastIndexOf('sent')).toBe(small.indexOf('no_room') - 1);
  });

  test('more when some was read, and everything arrives in order', async () => {
    const { send, read } = openStream();
    while (send({ data: 'x'.repeat(100_000) }) === 'sent');
    await read(500_000);
    expect(send({ data: 'x'.repeat(100_000) })).toBe('sent');
  });

  test('progress only while little is unread', async () => {
    const { offer, send, read } = openStream();
    const taken = events(100, 5000).filter(offer).length;
    expect(taken).toBeWithin(8, 16);
    expect(send({ data: '{}' })).toBe('sent');
    await read(taken * 5000);
    expect(offer({ data: '{}' })).toBe(true);
  });

  test('small answers even when others use the whole budget', () => {
    const { open, send } = openStream(MiB - 40_000);
    expect(send({ data: 'x'.repeat(MiB - 20_000) })).toBe('sent');
    const other = open();
    expect(other.send({ data: 'x'.repeat(100_000) })).toBe('no_room');
    expect(other.send({ data: 'x'.repeat(30_000) })).toBe('sent');
    expect(other.send({ data: 'x'.repeat(30_000) })).toBe('no_room');
    expect(other.send({ data: '{}' })).toBe('sent');
  });
});

describe('the budget', () => {
  test('counts what is unread, and nothing of a stream that is read, gone or cut off', async () => {
    const { budget, open, send, read, cut } = openStream();
    const others = [open(), open(), open()];
    for (const stream of others) for (const event of events(5, 100_000)) stream.send(event);
    const ofOthers = budget.heldBytes;
    expect(ofOthers).toBeWithin(1_350_000, 1_500_000);
    send({ data: 'x'.repeat(500_000) });
    expect(budget.heldBytes - ofOthers).toBeWithin(450_000, 500_000);
    await read(300_000);
    expect(budget.heldBytes - ofOthers).toBeWithin(150_000, 200_000);
    await read(180_000);
    expect(budget.heldBytes).toBe(ofOthers);
    await others[0]?.reader.cancel();
    others[1]?.cut();
    await expect(others[1]?.reader.read()).rejects.toThrow('does not read');
    expect(budget.heldBytes).toBe(ofOthers / 3);
    cut();
    others[2]?.cut();
    expect(budget.heldBytes).toBe(0);
    for (const { seen } of others) expect(seen.ended).toBe(1);
  });

  test('cuts off who reads nothing for 10 seconds, whatever is taken meanwhile', async () => {
    const { clock, send, seen, reader } = openStream();
    send({ data: 'x'.repeat(100_000) });
    clock.advance(9_900);
    send({ data: '{}' });
    await Bun.sleep(1100); // the longest it may take to look
    expect(seen.ended).toBe(0);
    clock.advance(200);
    await until(() => seen.ended === 1);
    await expect(reader.read()).rejects.toThrow('does not read');
  });
});

describe('a stream that this side ends', () => {
  test('takes no more, and what it took can be read to the end', async () => {
    const { close, send, comment, offer, reader, seen, budget } = openStream();
    send({ data: 'x'.repeat(200_000) });
    expect(close({ data: 'last' })).toBe(true);
    expect(seen.ended).toBe(1);
    expect([send({ data: '' }), offer({ data: '' }), comment('')]).toEqual(['no_room', false, false]);
    let text = '';
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      text += new TextDecoder().decode(piece.value);
    }
    expect(text).toBe(`data: ${'x'.repeat(200_000)}\n\ndata: last\n\n`);
    expect([budget.heldBytes, seen.ended]).toEqual([0, 1]);
  });

  test('may end with an event of any size, if the budget has room for it', () => {
    const large = openStream();
    expect(large.close({ data: 'x'.repeat(5 * MiB) })).toBe(true);
    expect(large.budget.heldBytes).toBeGreaterThan(5 * MiB);
    const { close, seen } = openStream(4 * MiB);
    expect(close({ data: 'x'.repeat(5 * MiB) })).toBe(false);
    expect(seen.ended).toBe(0);
    expect(close({ data: '{}' })).toBe(true);
    expect(seen.ended).toBe(1);
  });

  test('is cut off, too, when nobody reads its end', async () => {
    const { clock, close, reader, seen } = openStream();
    close({ data: 'last' });
    expect(seen.ended).toBe(1);
    clock.advance(15_000);
    await Bun.sleep(1100);
    await expect(reader.read()).rejects.toThrow('does not read');
  });
});

test('a keep-alive comment is due when nothing was sent or read for 15 seconds; who left something unread is cut off', async () => {
  const { clock, open, read, reader } = openStream();
  const [quiet, unread, slow] = [open(), open(), open()];
  unread.send({ data: '{}' });
  slow.send({ data: 'x'.repeat(30_000) });
  clock.advance(8_000);
  await slow.read(1);
  clock.advance(7_500);
  await Bun.sleep(1100);
  expect([quiet.seen.ended, unread.seen.ended, slow.seen.ended]).toEqual([0, 1, 0]);
  expect(new TextDecoder().decode((await quiet.reader.read()).value)).toBe(': keepalive\n\n');
  expect(await read(1)).toBe(': keepalive\n\n'.length);
  void reader.cancel();
});
