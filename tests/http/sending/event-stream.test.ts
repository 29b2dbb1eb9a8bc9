// Server-sent events: their framing, what a stream takes, and what becomes of one that nobody reads.

import { describe, expect, test } from 'bun:test';
import { RequestContext } from '../../../src/http/context.ts';
import { createEventStreams, eventText, STREAM_BYTES_MAX } from '../../../src/http/sending/event-stream.ts';
import { createSendBudget } from '../../../src/http/sending/send-budget.ts';
import { createLog } from '../../../src/log/log.ts';
import { testClock } from '../../support/clock.ts';
import { NO_CONNECTION } from '../../support/peer.ts';

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

/** A stream outside of any server, as its owner and its client have it; `open` opens others on the same budget. */
function openStream(budgetBytes?: number) {
  const clock = testClock();
  const log = createLog({ level: 'error', clock, write: async () => {} });
  const budget = createSendBudget(clock, log, budgetBytes);
  const streams = createEventStreams(clock, log, budget);
  const request = new Request('http://localhost/sse');
  const server = { production: false, trustProxy: 0, ownTls: false, newRequestId: () => 'r' };
  const context = new RequestContext(server, NO_CONNECTION, request, null);
  function open() {
    const seen = { ended: 0 };
    const stream = streams.open(context, () => {
      seen.ended += 1;
    });
    const reader = stream.response.body?.getReader();
    if (reader === undefined) throw new Error('no body');
    return {
      stream,
      seen,
      reader,
      send: (data: string) => stream.send({ data }),
      offer: (data: string) => stream.offer({ data }),
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
  return { clock, budget, open, ...open() };
}

const texts = (count: number, chars: number) => Array.from({ length: count }, () => 'x'.repeat(chars));

test.each([
  ['nothing', ''],
  ...[-1, 0, 1].map((more) => [`a piece and ${more}`, 'x'.repeat(8 * 1024 - 'data: '.length + more)] as const),
  ['characters of two bytes', 'ü'.repeat(50_000)],
  ['of three', `x${'€'.repeat(50_000)}`],
  ['of four, which are two in JavaScript', '🔑'.repeat(50_000)],
  ['of four, at other places', `x${'🔑'.repeat(50_000)}`],
  ['all kinds', 'xü€🔑'.repeat(20_000)],
])('what is sent arrives whole and in order: %s', async (_what, text) => {
  const { stream, send, readToEnd, budget } = openStream();
  const sent = [text, '{}', text, text, '{}'];
  for (const data of sent) expect(send(data)).toBe('sent');
  stream.close();
  expect(await readToEnd()).toBe(sent.map((data) => `data: ${data}\n\n`).join(''));
  expect(budget.heldBytes).toBe(0);
});

describe('a stream takes', () => {
  test('a stream takes an event of nearly 4 MiB, none that is larger, and small ones after it', () => {
    const { send } = openStream();
    expect(send('x'.repeat(STREAM_BYTES_MAX))).toBe('too_large');
    expect(send('€'.repeat(STREAM_BYTES_MAX / 2))).toBe('too_large');
    expect(send('x'.repeat(STREAM_BYTES_MAX - 1000))).toBe('sent');
    expect(send('{}')).toBe('sent');
  });

  test('a stream that is not read takes 4 MiB, then only small events, then none', () => {
    const { send, budget } = openStream();
    const sent = texts(100, 100_000).map(send);
    expect(sent.lastIndexOf('sent')).toBe(40);
    expect(budget.heldBytes).toBeLessThanOrEqual(4 * MiB);
    const small = texts(1000, 100).map(send);
    expect(small.indexOf('no_room')).toBeWithin(100, 500);
    expect(small.lastIndexOf('sent')).toBe(small.indexOf('no_room') - 1);
  });

  test('a stream takes more once some was read', async () => {
    const { send, read } = openStream();
    while (send('x'.repeat(100_000)) === 'sent');
    await read(200_000);
    expect(send('x'.repeat(100_000))).toBe('sent');
  });

  test('a stream takes progress only while little is unread', async () => {
    const { offer, send, read } = openStream();
    const taken = texts(100, 5000).filter(offer).length;
    expect(taken).toBeWithin(8, 16);
    expect(send('{}')).toBe('sent');
    await read(taken * 5000);
    expect(offer('{}')).toBe(true);
  });

  test('ordinary responses even when others use the whole budget', () => {
    const { open, send } = openStream(MiB - 17_000);
    expect(send('x'.repeat(MiB - 1000))).toBe('sent');
    const other = open();
    expect(other.send('x'.repeat(100_000))).toBe('no_room');
    expect(other.send('x'.repeat(15_000))).toBe('sent');
    expect(other.send('x'.repeat(15_000))).toBe('no_room');
    expect(other.send('{}')).toBe('sent');
    expect(other.offer('x'.repeat(1000))).toBe(false);
  });
});

describe('the budget', () => {
  test('counts what is unread, and nothing of a stream that is read, gone or cut off', async () => {
    const { budget, open, send, read, stream } = openStream();
    const others = [open(), open(), open()];
    for (const other of others) for (const text of texts(5, 100_000)) other.send(text);
    const ofOthers = budget.heldBytes;
    expect(ofOthers).toBeWithin(1_400_000, 1_500_000);
    for (const text of texts(5, 100_000)) send(text);
    expect(budget.heldBytes - ofOthers).toBe(ofOthers / 3);
    const got = await read(305_000);
    expect(budget.heldBytes - ofOthers).toBeWithin(180_000, 200_000);
    await read(5 * 'data: \n\n'.length + 500_000 - got);
    expect(budget.heldBytes).toBe(ofOthers);
    await others[0]?.reader.cancel();
    others[1]?.stream.cut();
    expect((await others[1]?.reader.read())?.done).toBe(true);
    expect(budget.heldBytes).toBe(ofOthers / 3);
    stream.cut();
    others[2]?.stream.cut();
    expect(budget.heldBytes).toBe(0);
    for (const { seen } of others) expect(seen.ended).toBe(1);
  });

  test('has nothing of an event that found no room, which doesn’t count as read either', async () => {
    const { budget, clock, send, seen } = openStream(MiB);
    send('x'.repeat(100_000));
    const { heldBytes } = budget;
    // Room for the characters, none for the two bytes that each takes.
    for (let times = 0; times < 100; times += 1) expect(send('€'.repeat(500_000))).toBe('no_room');
    expect(budget.heldBytes).toBe(heldBytes);
    clock.advance(12_000);
    expect(seen.ended).toBe(1);
  });

  test('cuts off who reads nothing for 10 seconds, whatever is taken meanwhile', async () => {
    const { clock, send, seen, reader } = openStream();
    send('x'.repeat(100_000));
    clock.advance(9_900);
    send('{}');
    clock.advance(1099);
    expect(seen.ended).toBe(0);
    clock.advance(1); // it looks once a second
    expect(seen.ended).toBe(1);
    expect((await reader.read()).done).toBe(true);
  });

  test('cuts off who reads nothing for 10 seconds, however much was read before', async () => {
    const { clock, send, read, seen } = openStream();
    send('x'.repeat(1_000_000));
    clock.advance(5000);
    await read(800_000); // enough for 30 seconds, by the average
    clock.advance(10_000);
    expect(seen.ended).toBe(0);
    clock.advance(1000);
    expect(seen.ended).toBe(1);
  });

  test('lets a slow client finish a large event', async () => {
    const { clock, send, read, seen } = openStream();
    send('x'.repeat(1_000_000));
    for (let second = 0; second < 20; second += 1) {
      clock.advance(1000);
      await read(40_000);
    }
    expect(seen.ended).toBe(0);
  });
});

describe('a stream that this side ends', () => {
  test('a stream that the server ends takes no more, and what it took can be read to the end', async () => {
    const { stream, send, offer, readToEnd, seen, budget } = openStream();
    send('x'.repeat(200_000));
    expect(stream.close({ data: 'last' })).toBe(true);
    expect(seen.ended).toBe(1);
    expect([send(''), offer(''), stream.comment('')]).toEqual(['no_room', false, false]);
    expect(await readToEnd()).toBe(`data: ${'x'.repeat(200_000)}\n\ndata: last\n\n`);
    expect([budget.heldBytes, seen.ended]).toEqual([0, 1]);
  });

  test('may end with an event of any size, if the budget has room for it', async () => {
    const large = openStream();
    const data = 'x'.repeat(5 * MiB);
    expect(large.stream.close({ data })).toBe(true);
    expect(large.budget.heldBytes).toBeGreaterThan(5 * MiB - 20_000);
    expect((await large.readToEnd()).length).toBe('data: \n\n'.length + data.length);
    const { stream, seen, budget } = openStream(4 * MiB);
    expect(stream.close({ data })).toBe(false);
    expect([seen.ended, budget.heldBytes]).toEqual([0, 0]);
    expect(stream.close({ data: '{}' })).toBe(true);
    expect(seen.ended).toBe(1);
  });

  test('a stream that the server ends is cut off, too, when its end is not read', async () => {
    const { clock, stream, reader, seen } = openStream();
    stream.close({ data: 'last' });
    expect(seen.ended).toBe(1);
    clock.advance(15_000);
    expect((await reader.read()).done).toBe(true);
  });
});

test('a keep-alive comment is due when nothing was sent or read for 15 seconds; who left something unread is cut off', async () => {
  const { clock, open } = openStream();
  const [quiet, unread, slow] = [open(), open(), open()];
  unread.send('{}');
  slow.send('x'.repeat(15_000));
  slow.send('x'.repeat(15_000));
  clock.advance(8_000);
  await slow.read(16_000);
  clock.advance(7_500);
  expect([quiet.seen.ended, unread.seen.ended, slow.seen.ended]).toEqual([0, 1, 0]);
  expect(new TextDecoder().decode((await quiet.reader.read()).value)).toBe(': keepalive\n\n');
  for (const { stream } of [quiet, slow]) stream.cut();
});
