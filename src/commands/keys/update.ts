// `keys update`: changes the limit, quota, name, expiry or scopes of a key.

import * as v from 'valibot';
import { parserOf } from '../../calls/schema.ts';
import { isIdShaped } from '../../keys/key-format.ts';
import { MS_PER_DAY } from '../../lib/duration.ts';
import { NO_CEILINGS } from '../../lib/rate-limit.ts';
import { keyRequestFields } from '../../tools/create-api-key.ts';
import { argumentsOf, limitOf, oneOf, quotaOf, unfit } from './arguments.ts';
import { BY_COMMAND, orFail, withStore } from './database.ts';
import { say } from './terminal.ts';
import { CommandError, UsageError, type Verb } from './verb.ts';

const OPTIONS = {
  limit: { type: 'string' },
  quota: { type: 'string' },
  name: { type: 'string' },
  days: { type: 'string' },
  scope: { type: 'string', multiple: true },
} as const;

/** Removes a key's own limit or quota: the server's applies. */
const DEFAULT = 'default';
const NEVER = 'never';

export const verb: Verb = {
  usage: 'update <id> [--limit 100/1m|default] [--quota 5000/day|default] [--name N] [--days D|never] [--scope S]…',
  summary: 'Changes a key. Days count from now. A revoked key stays revoked.',
  async run(args, env) {
    const { values, positionals } = argumentsOf(args, OPTIONS, 1);
    const id = oneOf(positionals, 'id');
    if (!isIdShaped(id)) throw new UsageError('expected an id of 32 hex digits');
    const { limit, quota, name, days, scope: scopes } = values;
    if (Object.keys(values).length === 0) throw new UsageError('expected an option');
    const rateLimit = limit === undefined ? undefined : limit === DEFAULT ? null : limitOf(limit);
    const ownQuota = quota === undefined ? undefined : quota === DEFAULT ? null : quotaOf(quota);
    await withStore(env, async ({ admin }, { keyCeilings }) => {
      const expiresInDays = days === undefined || days === NEVER ? undefined : Number(days);
      const fields = v.partial(v.strictObject(keyRequestFields({ ...keyCeilings, limits: NO_CEILINGS })));
      const fit = parserOf(fields)({
        ...(name !== undefined && { name }),
        ...(scopes !== undefined && { scopes }),
        ...(expiresInDays !== undefined && { expiresInDays }),
      });
      if (!fit.ok) throw unfit(fit.error);
      const nowMs = orFail(await admin.nowMs());
      const lastsMs = expiresInDays === undefined ? null : Math.round(nowMs + expiresInDays * MS_PER_DAY);
      const expiresAtMs = days === undefined ? undefined : lastsMs;
      const found = orFail(await admin.find({ id }));
      if (found.length === 0) throw new CommandError('there is no such key');
      const edited = orFail(
        await admin.edit(id, { name, scopes, expiresAtMs, rateLimit, quota: ownQuota }, BY_COMMAND),
      );
      say(edited === null ? `${id} was so already` : `updated ${id}`);
    });
  },
};
