// The bounded map behind every cache.

import { expect, test } from 'bun:test';
import { createLruCache } from '../../src/ground/cache.ts';

const text = (length: number) => 'x'.repeat(length);

test('keeps what is used, forgets what is not, and never holds more than its entries', () => {
  const recent = createLruCache<number>({ entries: 100 });
  recent.set('used', -1);
  for (let n = 0; n < 10_000; n += 1) {
    recent.set(`once ${n}`, n);
    expect(recent.get('used')).toBe(-1);
  }
  const kept = Array.from({ length: 10_000 }, (_, n) => n).filter((n) => recent.get(`once ${n}`) === n);
  expect(kept.length).toBe(99);
  expect(kept[0]).toBeGreaterThanOrEqual(9900);
});

test('never holds more than its bytes, but one entry whatever its size', () => {
  const recent = createLruCache<string>({ entries: 100, bytes: 1000, bytesOf: (value) => value.length });
  for (let n = 0; n < 50; n += 1) recent.set(`key ${n}`, text(100));
  const held = Array.from({ length: 50 }, (_, n) => recent.get(`key ${n}`)?.length ?? 0).reduce((sum, n) => sum + n);
  expect(held).toBe(1000);
  recent.set('large', text(5000));
  expect(recent.get('large')).toHaveLength(5000);
});

test('what is set again, or deleted, takes its bytes once', () => {
  const recent = createLruCache<string>({ bytes: 1000, bytesOf: (value) => value.length });
  recent.set('stays', text(200));
  for (let n = 0; n < 20; n += 1) recent.set('again', text(200));
  for (let n = 0; n < 20; n += 1) {
    recent.set(`short-lived ${n}`, text(100));
    recent.delete(`short-lived ${n}`);
  }
  expect(recent.get('stays')).toHaveLength(200);
});

test('what is used in turn all stays, as long as there is room for it', () => {
  const recent = createLruCache<number>({ bytes: 1000, bytesOf: () => 10 });
  const missed = Array.from({ length: 5 }, () => {
    let misses = 0;
    for (let n = 0; n < 100; n += 1) {
      if (recent.get(String(n)) !== undefined) continue;
      misses += 1;
      recent.set(String(n), n);
    }
    return misses;
  });
  expect(missed).toEqual([100, 0, 0, 0, 0]);
});

test('what is set again, deleted or cleared is gone, wherever it stood', () => {
  const recent = createLruCache<number>({ entries: 4 });
  for (const [index, key] of ['a', 'b', 'c'].entries()) recent.set(key, index);
  recent.set('a', 7);
  expect(recent.get('a')).toBe(7);
  recent.delete('a');
  recent.delete('b');
  expect([recent.get('a'), recent.get('b'), recent.get('c')]).toEqual([undefined, undefined, 2]);
  recent.clear();
  expect(recent.get('c')).toBeUndefined();
});
