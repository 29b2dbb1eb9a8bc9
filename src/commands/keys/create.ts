// `keys create`: a key for anybody. Only the key goes to stdout.

import { fstatSync, statSync } from 'node:fs';
import { devNull } from 'node:os';
import * as v from 'valibot';
import { parserOf } from '../../calls/schema.ts';
import { isSubject, SUBJECT_CHARS_MAX } from '../../jwt/identity.ts';
import { createKeyDomain } from '../../keys/index.ts';
import { NO_CEILINGS } from '../../lib/rate-limit.ts';
import { systemClock, systemRandom } from '../../lib/runtime.ts';
import { keyRequestFields } from '../../tools/create-api-key.ts';
import { argumentsOf, limitOf, quotaOf, unfit } from './arguments.ts';
import { BY_COMMAND, orFail, sha256, stderrLog, withStore } from './database.ts';
import { say, writeOut } from './terminal.ts';
import { CommandError, UsageError, type Verb } from './verb.ts';

const WAIT_MS_MAX = 5000;

const OPTIONS = {
  user: { type: 'string' },
  name: { type: 'string' },
  scope: { type: 'string', multiple: true },
  days: { type: 'string' },
  limit: { type: 'string' },
  quota: { type: 'string' },
} as const;

export const verb: Verb = {
  usage: 'create --user OWNER --name NAME [--scope S]… [--days N] [--limit 100/1m] [--quota 5000/day]',
  summary: 'Creates a key and prints it, and nothing else, on stdout. It is shown this once.',
  async run(args, env) {
    const { values } = argumentsOf(args, OPTIONS);
    const { user, name, scope: scopes = [], days, limit, quota } = values;
    const rateLimit = limit === undefined ? undefined : limitOf(limit);
    const ownQuota = quota === undefined ? undefined : quotaOf(quota);
    if (user === undefined || name === undefined) throw new UsageError('expected --user and --name');
    if (!isSubject(user))
      throw new UsageError(`--user: expected 1 to ${SUBJECT_CHARS_MAX} characters without controls`);
    if (isNull(1)) throw new CommandError('stdout is closed or /dev/null, where the key would be lost');
    await withStore(
      env,
      async (
        store,
        { production, keyPrefix, keyCeilings, revocationLagMaxMs: lagMaxMs, rateLimit: common, keyQuota },
      ) => {
        const ceilings = { ...keyCeilings, limits: NO_CEILINGS };
        const expiresInDays = days === undefined ? undefined : Number(days);
        const input = parserOf(v.strictObject(keyRequestFields(ceilings)))({ name, scopes, expiresInDays });
        if (!input.ok) throw unfit(input.error);
        const domain = createKeyDomain({
          store,
          adminStore: store.admin,
          clock: systemClock,
          random: systemRandom,
          sha256,
          log: stderrLog(),
          originOf: () => BY_COMMAND,
          production,
          keyPrefix,
          ceilings,
          lagMaxMs,
          rateLimit: common,
          keyQuota,
        });
        const actor = {
          userId: user,
          actor: user,
          grantable: null,
          requestId: 'keys create',
          clientAddress: () => '',
        };
        if (orFail(await store.isBlocked(user, WAIT_MS_MAX)))
          throw new CommandError('the owner is blocked, so the key would be refused: keys unblock');
        const created = await domain.keys.create(actor, { ...input.value, rateLimit, quota: ownQuota });
        if (!created.ok && created.error.code === 'invalid_input') throw unfit(created.error); // above a ceiling
        const { record, key } = orFail(created);
        say(`created ${record.id} for ${JSON.stringify(user)}`);
        await writeOut(`${key}\n`).catch(() => {
          throw new CommandError('the key could not be printed, and is lost: revoke it');
        });
        await domain.stop();
      },
    );
  },
};

/** If a descriptor is closed at start, the runtime opens the null device for it. */
const isNull = (fd: number) => fstatSync(fd).rdev === statSync(devNull, { throwIfNoEntry: false })?.rdev;
