// More sums and events than one response of a remote database holds, 10 MB: commands read them in several.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { openDatabase } from '../../support/database-client.ts';
import { inRest } from '../../support/everything.ts';
import { fillUses } from '../../support/fill.ts';
import { jsonLines, keysCommand } from '../../support/keys-command.ts';
import { startPrimary } from '../../support/template.ts';

setDefaultTimeout(180_000);

const KEYS = 30_000;
const KEYS_AT_ONCE = 1000;
const BLOCKED = 40_000;
const EVENTS_MAX = 10_000;
const LONG = 'x'.repeat(128);
const DAY_MS = 86_400_000;

const numbers = (from: number) =>
  `WITH RECURSIVE n (i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM n WHERE i < ${from + KEYS_AT_ONCE - 1})`;
const OWNER = `'${LONG}${LONG}' || i`;

inRest(test)(
  'of many owners with long names keys usage has all sums, keys unblock all, keys events as many as it is asked for',
  async () => {
    await using sqld = await startPrimary();
    const primary = openDatabase(sqld.url);
    const changedBy = JSON.stringify({ how: 'tool', actor: LONG + LONG, requestId: LONG });
    const today = Math.floor(Date.now() / DAY_MS);
    for (let from = 0; from < BLOCKED; from += KEYS_AT_ONCE)
      await primary.execute(`INSERT INTO blocked_owners (owner) ${numbers(from)} SELECT ${OWNER} FROM n`);
    for (let from = 0; from < KEYS; from += KEYS_AT_ONCE) {
      await primary.execute(
        `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms, changed_by) ${numbers(from)}
SELECT lower(hex(randomblob(16))), ${OWNER}, 'n', lower(hex(randomblob(32))), '[]', 1, 1, '${changedBy}' FROM n`,
      );
      await primary.execute(
        `INSERT INTO ended_uses (owner, day, units) ${numbers(from)} SELECT 'left ' || ${OWNER}, ${today}, 1 FROM n`,
      );
    }
    await fillUses(primary, 1);
    primary.close();
    const printed = async (...args: string[]) => jsonLines(await keysCommand(sqld.env, [...args, '--json']));
    for (const by of ['owner', 'key']) {
      const used = await printed('usage', '--days', '1', '--by', by);
      expect([used.length, new Set(used.map(({ owner }) => owner)).size]).toEqual([2 * KEYS, 2 * KEYS]);
    }
    const blocked = (await printed('unblock')).map(({ owner }) => owner);
    expect([blocked.length, new Set(blocked).size]).toEqual([BLOCKED, BLOCKED]);
    const seqs = async (...args: string[]) =>
      (await printed('events', '--limit', String(EVENTS_MAX), ...args)).map(({ seq }) => seq);
    expect(await seqs()).toEqual(Array.from({ length: EVENTS_MAX }, (_, at) => KEYS + BLOCKED - EVENTS_MAX + at + 1));
    expect(await seqs('--after', String(BLOCKED))).toEqual(
      Array.from({ length: EVENTS_MAX }, (_, at) => BLOCKED + at + 1),
    );
  },
);
