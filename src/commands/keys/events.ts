// `keys events`: prints the events of keys, oldest first.

import { outageIn } from '../../ground/result.ts';
import { sleep } from '../../ground/runtime.ts';
import { createTrail, type EventQuery, type KeyEvent, type Trail } from '../../store/trail.ts';
import { command } from '../command.ts';
import { isoTime, localTime, type Progress, UsageError } from '../io.ts';
import { flag, ID, OWNER, optional, TIME_MS, wholeNumber } from '../options.ts';
import { withStore, withStoreToRead } from './database.ts';

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 10_000;
const FOLLOW_EVERY_MS = 1000;
/** Events that one statement scans for an owner's, or those of a time. */
const RANGE_EVENTS = 100_000;
/** Events that one statement returns: 3 MB with long names, of the 10 that a remote database may send. */
const PAGE_EVENTS = 1000;

export const verb = command({
  name: 'keys events',
  summary: `What was done to keys, by whom, and how: the newest ${LIMIT_DEFAULT}, or --limit (at most ${LIMIT_MAX}), oldest first. --follow goes on.`,
  options: {
    after: optional(wholeNumber('SEQ', 0, Number.MAX_SAFE_INTEGER)),
    since: optional(TIME_MS),
    until: optional(TIME_MS),
    limit: optional(wholeNumber('N', 1, LIMIT_MAX)),
    key: optional(ID),
    user: optional(OWNER),
    follow: flag,
    json: flag,
  },
  run({ options: { after, limit = LIMIT_DEFAULT, key: keyId, user: owner, follow, json, ...times }, io }) {
    const { since: sinceMs, until: untilMs } = times;
    if (follow && untilMs !== undefined) throw new UsageError('expected --follow, which goes on, or --until');
    const open = follow ? withStore : withStoreToRead; // what comes is in no copy
    return open(io, async ({ db }) => {
      const trail = createTrail(db);
      const which = { keyId, owner, sinceMs, untilMs, limit };
      const writeCells = io.pagesUnder(HEADS);
      const write = (page: readonly KeyEvent[]) =>
        json ? io.writeJson(page.map(eventObject)) : writeCells(page.map(eventCells));

      const reached = await trail.newestSeq();
      const progress = io.progressOf('events read');
      const [first, readTo] =
        after === undefined
          ? [await newestOf(trail, which, reached, progress), reached]
          : await oldestOf(trail, which, after, reached, progress);
      await write(first);
      if (!follow) return;
      let afterSeq = readTo;
      async function writeNewer(): Promise<void> {
        // Only up to a number read before, so that only new events are scanned for an owner's.
        const newest = await trail.newestSeq();
        while (afterSeq < newest) {
          const [page, readTo] = await oldestOf(trail, which, afterSeq, newest, () => {});
          await write(page);
          afterSeq = readTo;
        }
      }
      for (let isAway = false; ; await sleep(FOLLOW_EVERY_MS)) {
        const outage = await writeNewer().then(() => null, outageIn);
        if (outage !== null && !isAway) io.say(`events follow when the database is back: ${outage.reason}`);
        isAway = outage !== null;
      }
    });
  },
});

type Which = Pick<EventQuery, 'keyId' | 'owner' | 'sinceMs' | 'untilMs' | 'limit'>;

/** Returns whether an index finds the events. Otherwise a range is scanned, however few match. */
const isIndexed = ({ keyId, owner, sinceMs, untilMs }: Which): boolean =>
  keyId !== undefined || [owner, sinceMs, untilMs].every((given) => given === undefined);

async function newestOf(trail: Trail, which: Which, reached: number, progress: Progress): Promise<KeyEvent[]> {
  const rangeEvents = isIndexed(which) ? reached : RANGE_EVENTS;
  const found: KeyEvent[] = [];
  for (let before = reached + 1; before > 1 && found.length < which.limit; ) {
    const afterSeq = Math.max(0, before - 1 - rangeEvents);
    const limit = Math.min(PAGE_EVENTS, which.limit - found.length);
    const page = await trail.newest({ ...which, limit, afterSeq, beforeSeq: before });
    found.push(...page);
    before = page[limit - 1]?.seq ?? afterSeq + 1;
    progress(reached - before + 1, reached);
  }
  return found.reverse();
}

/** Returns the first `limit` events after `after`, up to `reached`, and how far it has read. */
async function oldestOf(
  trail: Trail,
  which: Which,
  after: number,
  reached: number,
  progress: Progress,
): Promise<readonly [KeyEvent[], number]> {
  const rangeEvents = isIndexed(which) ? reached : RANGE_EVENTS;
  const found: KeyEvent[] = [];
  let readTo = after;
  while (readTo < reached) {
    const to = Math.min(reached, readTo + rangeEvents);
    const limit = Math.min(PAGE_EVENTS, which.limit - found.length);
    const page = await trail.oldest({ ...which, limit, afterSeq: readTo, beforeSeq: to + 1 });
    found.push(...page);
    readTo = page[limit - 1]?.seq ?? to;
    if (found.length === which.limit) return [found, readTo];
    progress(readTo - after, reached - after);
  }
  return [found, Math.max(after, reached)];
}

const eventObject = ({ atMs, byAdmin: _, secret, backupSeq, client, workload, fields, seq, ...event }: KeyEvent) => ({
  seq,
  at: isoTime(atMs),
  ...event,
  ...(secret !== null && { secret }),
  ...(backupSeq !== null && { backupSeq }),
  ...(client !== null && { client }),
  ...(workload !== null && { workload }),
  ...(fields !== null && { fields }),
});

const HEADS = ['SEQ', 'AT', 'KIND', 'KEY', 'OWNER', 'HOW', 'ACTOR', 'REQUEST', 'ADDRESS', 'FINGERPRINT'];

const eventCells = (event: KeyEvent): string[] => [
  String(event.seq),
  localTime(event.atMs),
  kindCell(event),
  ...[event.keyId, event.owner, event.how, event.actor, event.requestId, event.address, event.fingerprint].map(
    (text) => text ?? '-',
  ),
];

function kindCell({ kind, secret, fields, workload }: KeyEvent): string {
  const detail = secret ?? fields?.join(', ') ?? workload?.subject ?? '';
  return detail === '' ? kind : `${kind} (${detail})`;
}
