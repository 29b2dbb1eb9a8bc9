// The pool of what clients make this process hold: who is cut off for whom, and who never is.

import { expect, test } from 'bun:test';
import { createPool } from '../../../src/ground/limits/pool.ts';
import { countingSleep } from '../../../src/ground/runtime.ts';
import { testClock } from '../../support/clock.ts';

const KIB = 1024;

function poolOf(total: number) {
  const clock = testClock();
  const pool = createPool({ total }, countingSleep(clock));
  const cut: string[] = [];
  return { clock, cut, open: (name: string) => pool(() => cut.push(name)) };
}

test('whoever moved last the longest ago makes room, and no more of them than it takes', () => {
  const { clock, cut, open } = poolOf(90 * KIB);
  const [a, b, c] = [open('a'), open('b'), open('c')];
  for (const held of [a, b, c]) expect(held.hold(30 * KIB)).toBe(true);
  clock.advance(500);
  a.moved(16 * KIB);
  clock.advance(1001);
  expect(open('d').hold(40 * KIB)).toBe(true);
  expect(cut).toEqual(['b', 'c']);
});

test('nobody who has moved within the last second is cut off, and what finds no room changes nothing', () => {
  const { clock, cut, open } = poolOf(64 * KIB);
  const held = open('a');
  expect(held.hold(64 * KIB)).toBe(true);
  const other = open('b');
  clock.advance(1000);
  held.moved(16 * KIB);
  clock.advance(999);
  expect(other.hold(1)).toBe(false);
  expect(cut).toEqual([]);
  clock.advance(1);
  expect(other.hold(64 * KIB)).toBe(true);
  expect(cut).toEqual(['a']);
});

test('a byte now and then is no movement; many of them are', () => {
  const { clock, cut, open } = poolOf(64 * KIB);
  const [dripping, steady] = [open('dripping'), open('steady')];
  for (const held of [dripping, steady]) expect(held.hold(32 * KIB)).toBe(true);
  for (let times = 0; times < 20; times += 1) {
    clock.advance(100);
    dripping.moved(1);
    steady.moved(2 * KIB);
  }
  expect(open('new').hold(32 * KIB)).toBe(true);
  expect(cut).toEqual(['dripping']);
});

test('nobody is cut off for more than there is at all, nor for what makes itself larger', () => {
  const { clock, cut, open } = poolOf(64 * KIB);
  const [a, b] = [open('a'), open('b')];
  a.hold(32 * KIB);
  clock.advance(5000);
  expect(b.hold(65 * KIB)).toBe(false);
  expect(a.hold(64 * KIB)).toBe(true);
  expect(a.hold(65 * KIB)).toBe(false);
  expect(cut).toEqual([]);
});

test('what has arrived is held until it is given back, and not cut off', () => {
  const { clock, cut, open } = poolOf(64 * KIB);
  const [arrived, other] = [open('arrived'), open('other')];
  arrived.hold(64 * KIB);
  arrived.keep();
  clock.advance(60_000);
  expect(other.hold(1)).toBe(false);
  arrived.hold(0);
  expect(other.hold(64 * KIB)).toBe(true);
  expect(cut).toEqual([]);
});

test('who held nothing for long is not old when it begins', () => {
  const { clock, cut, open } = poolOf(64 * KIB);
  const [quiet, other] = [open('quiet'), open('other')];
  clock.advance(60_000);
  quiet.hold(64 * KIB);
  expect(other.hold(1)).toBe(false);
  expect(cut).toEqual([]);
});

test('after a sleep of the machine all are old, and make room at once', () => {
  const { clock, cut, open } = poolOf(64 * KIB);
  open('a').hold(64 * KIB);
  clock.sleep(60_000);
  expect(open('b').hold(1)).toBe(true);
  expect(cut).toEqual(['a']);
});
