// `keys events`: the events of keys, oldest first.

import type { EventQuery, KeyEvent } from '../../keys/store.ts';
import { sleep } from '../../lib/timeout.ts';
import { argumentsOf } from './arguments.ts';
import { orFail, withStore } from './database.ts';
import { isoTime, localTime, writeJson, writeTable } from './terminal.ts';
import { UsageError, type Verb } from './verb.ts';

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 10_000;
const FOLLOW_EVERY_MS = 1000;

const OPTIONS = {
  after: { type: 'string' },
  limit: { type: 'string', default: String(LIMIT_DEFAULT) },
  key: { type: 'string' },
  user: { type: 'string' },
  follow: { type: 'boolean' },
  json: { type: 'boolean' },
} as const;

export const verb: Verb = {
  usage: 'events [--after SEQ] [--limit N] [--key ID] [--user OWNER] [--follow] [--json]',
  summary: 'What was done to keys, by whom, and how: the newest 100 unless told, oldest first. --follow goes on.',
  async run(args, env) {
    const { values } = argumentsOf(args, OPTIONS);
    const limit = wholeNumber('limit', values.limit, 1, LIMIT_MAX);
    let afterSeq = values.after === undefined ? null : wholeNumber('after', values.after, 0, Number.MAX_SAFE_INTEGER);
    const about: Pick<EventQuery, 'keyId' | 'owner'> = { keyId: values.key, owner: values.user };
    await withStore(env, async ({ events }) => {
      let heads = [HEADS];
      for (;;) {
        const page = orFail(await events({ ...about, afterSeq, limit }));
        if (values.json) await writeJson(page.map(eventObject));
        else if (page.length > 0 || heads.length > 0) await writeTable([...heads, ...page.map(eventCells)]);
        heads = [];
        if (!values.follow) return;
        afterSeq = page.at(-1)?.seq ?? afterSeq ?? 0;
        if (page.length < limit) await sleep(FOLLOW_EVERY_MS);
      }
    });
  },
};

function wholeNumber(name: string, text: string, min: number, max: number): number {
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) throw new UsageError(`--${name}: expected a whole number, ${min} to ${max}`);
  return value;
}

const eventObject = ({ atMs, secret, backupSeq, seq, ...event }: KeyEvent) => ({
  seq,
  at: isoTime(atMs),
  ...event,
  ...(secret !== null && { secret }),
  ...(backupSeq !== null && { backupSeq }),
});

const HEADS = ['SEQ', 'AT', 'KIND', 'KEY', 'OWNER', 'HOW', 'ACTOR', 'REQUEST', 'ADDRESS', 'FINGERPRINT'];

const eventCells = (event: KeyEvent): string[] => [
  String(event.seq),
  localTime(event.atMs),
  event.secret === null ? event.kind : `${event.kind} (${event.secret})`,
  ...[event.keyId, event.owner, event.how, event.actor, event.requestId, event.address, event.fingerprint].map(
    (text) => text ?? '-',
  ),
];
