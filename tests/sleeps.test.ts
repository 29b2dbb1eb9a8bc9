// No test waits for a time where it could wait for the thing, or move a clock; nor fails because a machine is slow.

import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Glob } from 'bun';

/** From here on a sleep needs a reason. */
const SLEEP_MS = 200;

/** What `bun run test` doesn't run. */
const NOT_TESTS = /\.long\.ts$|^lab\/bench\/|^lab\/fuzz\/settings\.ts$|^lab\/timing\.ts$/;

/** Sleeps that are that long, or whose length is computed, each with its reason. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  // Of real processes, a time has to pass.
  'process/frozen.slow.test.ts: lagMaxMs': 'a process is stopped for the bound',
  'doors/children/endings.slow.test.ts: BOUND_MS': 'the same',
  'doors/rules/everywhere.slow.test.ts: BOUND_MS': 'the same',
  'process/stop-load.slow.test.ts: HELD_MS': 'a stop that does not wait would have ended the process by then',
  'process/stop.test.ts: 2000': 'the same',
  'commands/dev.test.ts: 2000': 'the same',
  'doors/signin/documents.test.ts: 20_000': 'a document drips longer than the server waits for it',
  'lab/load/unread-streams.ts: WATCHED_MS': 'memory that is not given back grows meanwhile',
  'support/callers.ts: leftMs + 2000': 'near midnight, until a new day has begun: the counts of a day begin anew',
  // The load lasts so long.
  'lab/load/overload.alone.test.ts: FLOOD_MS': 'a flood',
  'lab/soak/soak.ts: (seconds / windows) * 1000': 'a window of the soak',
  'lab/bill.ts: SETTLED_MS': 'what a start reads is over',
  'lab/services.ts: QUIET_MS / 2': 'requests of a quiet service are counted',
  'lab/services.ts: 2 * boundMs': 'what a start asks is over',
  // The pace of a load.
  'lab/bill.ts: ROUND_MS': 'keys are used so often',
  'lab/load/attack.ts: aheadMs': 'an attacker does not go faster than so many a second',
  'support/callers.ts: pauseMs': 'callers pause',
  'doors/services/leased-limits.slow.test.ts: pauseMs': 'the same',
  'lab/load/guesses.alone.test.ts: n * BETWEEN_HONEST_MS': 'honest callers come one after the other',
  'lab/soak/soak.ts: pauseMs': 'callers pause',
  'lab/kills/used-while.ts: everyMs': 'the same',
  'lab/fuzz/wire.ts: pauseMs': 'a slow client pauses between the pieces of a request',
  'lab/fuzz/wire.ts: quietMs': 'a response that never comes is given up',
  // At a random or a different moment each time.
  'mcp/cross-talk.slow.test.ts: Math.random() * 4': 'a tool responds',
  'lab/kills/chaos-runs.ts: Math.random() * DOWN_MS_MAX': 'the primary comes back',
  'lab/kills/handing-out.test.ts: Math.random() * LIFE_MS_MAX': 'a process is killed',
  'lab/kills/kill-rounds.ts: Math.random() * LIFE_MS_MAX': 'a process is killed',
  'lab/kills/foreign-writer.ts: hold % LONG_EVERY === 0 ? LONG_HOLD_MS : Math.random() * HOLD_MS_MAX':
    'another program holds the file',
  'lab/kills/used-while.ts: beforeMs': 'a key ends between two polls',
  'lab/load/loop-monitor.alone.test.ts: 15 + times % 10': 'the event loop is held up',
  'support/proxy.ts: delayMs': 'the primary is far away',
  'lab/services.ts: awayMs / 2': 'the servers are far away',
  'doors/services/verifier.test.ts: FAR_MS': 'the server is too far away',
  'support/proxy.ts: lateMs': 'a statement arrives once more, later',
  'lab/kills/crashes.ts: LIFE_MS_MIN + random() * (LIFE_MS_MAX - LIFE_MS_MIN)': 'a process is killed',
};

const CALL = /(?<![.\w])(?:Bun\.sleep(?:Sync)?|(?<=await )sleep|(setTimeout))\(/g;

/** The arguments of the call whose opening parenthesis is before `start`. */
function argumentsAt(source: string, start: number): string[] {
  const given = [''];
  let depth = 0;
  for (let at = start; depth > 0 || source[at] !== ')'; at += 1) {
    const char = source[at];
    if (char === undefined) throw new Error('a call without an end');
    if ('([{'.includes(char)) depth += 1;
    if (')]}'.includes(char)) depth -= 1;
    if (char === ',' && depth === 0) given.push('');
    else given.push(given.pop() + char);
  }
  return given.map((text) => text.trim());
}

/** A number of milliseconds, also by the name of a constant; null: it is computed. */
function msOf(time: string, source: string): number | null {
  const constant = /^[A-Z_]+$/.test(time) ? new RegExp(`\\bconst ${time} = ([\\d_]+);`).exec(source)?.[1] : undefined;
  const digits = constant ?? time;
  return /^[\d_]+$/.test(digits) ? Number(digits.replaceAll('_', '')) : null;
}

test('no test sleeps for a fifth of a second or more, or for a computed time, but those that have to', () => {
  const found = new Set<string>();
  for (const file of new Glob('**/*.ts').scanSync(import.meta.dir)) {
    if (NOT_TESTS.test(file)) continue;
    const source = readFileSync(join(import.meta.dir, file), 'utf8');
    for (const { 0: call, 1: isTimer, index } of source.matchAll(CALL)) {
      const given = argumentsAt(source, index + call.length);
      const time = isTimer === undefined ? given[0] : (given[1] ?? '0');
      const ms = msOf(time ?? '', source);
      if (ms === null || ms >= SLEEP_MS) found.add(`${file}: ${time}`);
    }
  }
  expect([...found].sort()).toEqual(Object.keys(EXCEPTIONS).sort());
});

/** What tests/run.ts gives each test. */
const TEST_MS = 180_000;
/** The last argument of a test or hook, on a line with the end of its function or on the next one, and the default. */
const GIVEN = /^ *(?:\}, |setDefaultTimeout\()([\d_]+)\);|^ *\},\n *(\d+_000),\n *\);/gm;

test('no test or hook is given less time than it has without, where a busy machine takes ten times as long', () => {
  const short: string[] = [];
  for (const file of new Glob('**/*.test.ts').scanSync(import.meta.dir)) {
    const source = readFileSync(join(import.meta.dir, file), 'utf8');
    for (const [, ms, msBelow] of source.matchAll(GIVEN)) {
      const given = Number((ms ?? msBelow)?.replaceAll('_', ''));
      if (given < TEST_MS) short.push(`${file}: ${given}`);
    }
  }
  expect(short).toEqual([]);
});
