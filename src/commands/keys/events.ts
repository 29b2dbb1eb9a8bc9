// `keys events`: the events of keys, oldest first.

import { sleep } from '../../ground/runtime.ts';
import type { KeyEvent } from '../../keys/store.ts';
import { command } from '../command.ts';
import { isoTime, localTime } from '../io.ts';
import { flag, ID, OWNER, optional, wholeNumber } from '../options.ts';
import { withStore } from './database.ts';

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 10_000;
const FOLLOW_EVERY_MS = 1000;

export const verb = command({
  name: 'keys events',
  summary: `What was done to keys, by whom, and how: the newest ${LIMIT_DEFAULT} unless told, oldest first. --follow goes on.`,
  options: {
    after: optional(wholeNumber('SEQ', 0, Number.MAX_SAFE_INTEGER)),
    limit: optional(wholeNumber('N', 1, LIMIT_MAX)),
    key: optional(ID),
    user: optional(OWNER),
    follow: flag,
    json: flag,
  },
  run: ({ options: { after, limit = LIMIT_DEFAULT, key: keyId, user: owner, follow, json }, io }) =>
    withStore(io, async ({ events }) => {
      let afterSeq = after ?? null;
      let heads = [HEADS];
      for (;;) {
        const page = await events({ keyId, owner, afterSeq, limit });
        if (json) await io.writeJson(page.map(eventObject));
        else if (page.length > 0 || heads.length > 0) await io.writeTable([...heads, ...page.map(eventCells)]);
        heads = [];
        if (!follow) return;
        afterSeq = page.at(-1)?.seq ?? afterSeq ?? 0;
        if (page.length < limit) await sleep(FOLLOW_EVERY_MS);
      }
    }),
});

const eventObject = ({ atMs, secret, backupSeq, fields, seq, ...event }: KeyEvent) => ({
  seq,
  at: isoTime(atMs),
  ...event,
  ...(secret !== null && { secret }),
  ...(backupSeq !== null && { backupSeq }),
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

function kindCell({ kind, secret, fields }: KeyEvent): string {
  const detail = secret ?? fields?.join(', ') ?? '';
  return detail === '' ? kind : `${kind} (${detail})`;
}
