// `keys usage`: what owners or keys have used in a month, or in days, for bills.

import { createAdminStore, type Days, keptDays, type UsageQuery, type Used, usageOf } from '../../doors/admin/index.ts';
import { MS_PER_DAY } from '../../ground/runtime.ts';
import type { Database } from '../../store/database.ts';
import { command } from '../command.ts';
import { CommandError, type Io, UsageError } from '../io.ts';
import { flag, kind, OWNER, optional, wholeNumber } from '../options.ts';
import { withStoreToRead } from './database.ts';

const DAYS_MAX = 400;
/** Days that are always kept: the least of USAGE_DAYS. */
const KEPT_DAYS = 62;
/** Keys whose names are read at once. */
const PAGE_KEYS = 500;

const MONTH = kind('2026-11', 'a month like 2026-11', (given) =>
  /^\d{4}-(0[1-9]|1[0-2])$/.test(given) ? given : null,
);
const BY = kind<UsageQuery['by']>('owner|key', 'owner or key', (given) =>
  given === 'owner' || given === 'key' ? given : null,
);

const DELETED = 'keys that were deleted';
const MAY_LACK =
  'the last seconds may be missing: 60 s while more than 1,000 keys wait, and longer while a process cannot reach the database';

export const verb = command({
  name: 'keys usage',
  summary: 'Units that owners, or keys, have used: this month unless told, by UTC days, the most first.',
  options: {
    month: optional(MONTH),
    days: optional(wholeNumber('N', 1, DAYS_MAX)),
    by: optional(BY),
    owner: optional(OWNER),
    json: flag,
  },
  async run({ options: { month, days, by = 'owner', owner, json }, io }) {
    if (month !== undefined && days !== undefined) throw new UsageError('expected --month or --days');
    const today = Math.floor(Date.now() / MS_PER_DAY);
    const period = days === undefined ? daysOfMonth(month, today) : { from: today - days + 1, to: today };
    await withStoreToRead(io, async ({ db }) => {
      const missing = await missingIn(db, period, today);
      const used = await usageOf(db, { by, owner, ...period }, io.progressOf('keys read'));
      const shown = { from: dayText(period.from), to: dayText(period.to), complete: missing === null };
      await write(used, db, { by, json, shown, io });
      io.say(MAY_LACK);
      if (missing !== null)
        throw new CommandError(
          `missing, because uses are kept for USAGE_DAYS: ${dayText(missing.from)} to ${dayText(missing.to)}`,
        );
    });
  },
});

function daysOfMonth(month: string | undefined, today: number): Days {
  const first = new Date(`${month ?? dayText(today).slice(0, 'YYYY-MM'.length)}-01`); // UTC
  const from = first.getTime() / MS_PER_DAY;
  const next = first.setUTCMonth(first.getUTCMonth() + 1) / MS_PER_DAY;
  if (from > today) throw new UsageError('--month: expected one that has begun');
  return { from, to: Math.min(next - 1, today) };
}

const dayText = (day: number): string => new Date(day * MS_PER_DAY).toISOString().slice(0, 'YYYY-MM-DD'.length);

/** Returns the days of a period that the database once had and keeps no longer, or null. */
async function missingIn(db: Database, { from, to }: Days, today: number): Promise<Days | null> {
  const lastUnkept = today - KEPT_DAYS - 1;
  if (from > lastUnkept) return null;
  const { first, oldest } = await keptDays(db);
  const missing = { from: Math.max(from, first), to: Math.min(to, lastUnkept, oldest - 1) };
  return missing.from <= missing.to ? missing : null;
}

interface Shown {
  readonly by: UsageQuery['by'];
  readonly json: boolean;
  readonly shown: { readonly from: string; readonly to: string; readonly complete: boolean };
  readonly io: Io;
}

async function write(used: readonly Used[], db: Database, { by, json, shown, io }: Shown): Promise<void> {
  const admin = createAdminStore(db);
  const writeCells = io.pagesUnder(by === 'key' ? ['UNITS', 'OWNER', 'KEY', 'NAME'] : ['UNITS', 'OWNER']);
  for (let at = 0; at < used.length; at += PAGE_KEYS) {
    const page = used.slice(at, at + PAGE_KEYS);
    const ids = page.flatMap(({ keyId }) => keyId ?? []);
    const keys = ids.length === 0 ? [] : await admin.page({ ids }, 0, Number.MAX_SAFE_INTEGER, ids.length);
    const names = new Map(keys.map(({ id, name }) => [id, name]));
    const nameOf = (keyId: string) => names.get(keyId) ?? '';
    const keyCells = (keyId: string | null) => (keyId === null ? ['-', DELETED] : [keyId, nameOf(keyId)]);
    const cells = ({ owner, keyId, units }: Used) => [String(units), owner, ...(by === 'key' ? keyCells(keyId) : [])];
    const line = ({ owner, keyId, units }: Used) => ({
      owner,
      ...(keyId !== null && { keyId, keyName: nameOf(keyId) }),
      units,
      ...shown,
    });
    if (json) await io.writeJson(page.map(line));
    else await writeCells(page.map(cells));
  }
  if (json) return;
  const sum = used.reduce((units, one) => units + one.units, 0);
  await writeCells([[String(sum), `in all, ${shown.from} to ${shown.to}`]]);
}
