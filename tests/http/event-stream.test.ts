// The framing of server-sent events.

import { expect, test } from 'bun:test';
import { eventText } from '../../src/http/event-stream.ts';

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
