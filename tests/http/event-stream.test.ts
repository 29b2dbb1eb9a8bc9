// Server-sent events: their framing, and what becomes of a stream that nobody reads.

import { expect, test } from 'bun:test';
import { eventText } from '../../src/http/event-stream.ts';
import { createEventStreams } from '../../src/http/event-streams.ts';
import { testClock } from '../support/clock.ts';
import { NO_CONNECTION } from '../support/peer.ts';
import { until } from '../support/until.ts';

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

test('a stream with a full buffer is cut off when a keep-alive comment is due', async () => {
  const clock = testClock();
  let ended = false;
  const stream = createEventStreams(clock).open(
    {
      request: new Request('http://localhost/sse'),
      path: '/sse',
      requestId: 'r',
      secure: false,
      peer: NO_CONNECTION,
    },
    () => {
      ended = true;
    },
  );
  expect(stream.send({ data: 'x'.repeat(256 * 1024) })).toBe(true);
  expect(stream.send({ data: 'no room' })).toBe(false);
  clock.advance(15_000);
  await until(() => ended);
  await expect(stream.response.text()).rejects.toThrow();
});
