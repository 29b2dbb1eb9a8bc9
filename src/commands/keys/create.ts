// `keys create`: a key for anybody. The key alone goes to stdout.

import * as v from 'valibot';
import { isSubject, SUBJECT_CHARS_MAX } from '../../jwt/identity.ts';
import { createKeyDomain } from '../../keys/index.ts';
import { systemClock, systemRandom } from '../../lib/runtime.ts';
import { parserOf } from '../../tools/core/schema.ts';
import { wishFields } from '../../tools/create-api-key.ts';
import {
  argumentsOf,
  BY_COMMAND,
  CommandError,
  orFail,
  say,
  sha256,
  stderrLog,
  usageError,
  type Verb,
  withStore,
  writeOut,
} from './verb.ts';

const WAIT_MS_MAX = 5000;

const OPTIONS = {
  user: { type: 'string' },
  name: { type: 'string' },
  scope: { type: 'string', multiple: true },
  days: { type: 'string' },
} as const;

export const verb: Verb = {
  usage: '--user OWNER --name NAME [--scope S]… [--days N]',
  summary: 'Creates a key and prints it, and nothing else, on stdout. It is shown this once.',
  async run(args, env) {
    const { values } = argumentsOf(args, OPTIONS, verb);
    const { user, name, scope: scopes = [], days } = values;
    if (user === undefined || name === undefined) throw usageError(verb, 'expected --user and --name');
    if (!isSubject(user))
      throw usageError(verb, `--user: expected 1 to ${SUBJECT_CHARS_MAX} characters without controls`);
    await withStore(
      env,
      async (store, { production, keyPrefix, keyCeilings: ceilings, revocationLagMaxMs: lagMaxMs }) => {
        const expiresInDays = days === undefined ? undefined : Number(days);
        const input = parserOf(v.strictObject(wishFields(ceilings)))({ name, scopes, expiresInDays });
        if (!input.ok)
          throw new CommandError(input.error.issues.map(({ path, message }) => `${path}: ${message}`).join('\n'), 2);
        const domain = createKeyDomain({
          store,
          adminStore: store.admin,
          clock: systemClock,
          random: systemRandom,
          sha256,
          log: stderrLog(),
          production,
          keyPrefix,
          ceilings,
          lagMaxMs,
          eventAddresses: false,
        });
        const actor = {
          userId: user,
          actor: user,
          grantable: null,
          requestId: 'keys create',
          clientAddress: () => '',
          origin: BY_COMMAND,
        };
        if (orFail(await store.isBlocked(user, WAIT_MS_MAX)))
          throw new CommandError('the owner is blocked, so the key would be refused: keys unblock');
        const { record, key } = orFail(await domain.keys.create(actor, input.value));
        say(`created ${record.id} for ${JSON.stringify(user)}`);
        await writeOut(`${key}\n`).catch(() => {
          throw new CommandError('the key could not be printed, and is lost: revoke it');
        });
        await domain.stop();
      },
    );
  },
};
