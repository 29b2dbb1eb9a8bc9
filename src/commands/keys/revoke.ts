// `keys revoke`: revokes keys of anybody, after it has said how many and asked.

import { type KeyFilter, revokeAll } from '../../keys/admin.ts';
import { isIdShaped } from '../../keys/key-format.ts';
import { argumentsOf, FILTER_OPTIONS, filterOf } from './arguments.ts';
import { BY_COMMAND, orFail, withStore } from './database.ts';
import { confirm, keysCounted, progressOf, say, writeOut } from './terminal.ts';
import { UsageError, type Verb } from './verb.ts';

export const verb: Verb = {
  usage: 'revoke <id>… | [--user OWNER] [--scope S] [--created-after T] [--unused-for 90d] | --all  [--yes]',
  summary:
    'Revokes the keys that fit everything given, after it has said how many they are, and prints their ids. --yes: does not ask.',
  async run(args, env) {
    const options = { ...FILTER_OPTIONS, all: { type: 'boolean' }, yes: { type: 'boolean' } } as const;
    const { values, positionals } = argumentsOf(args, options, Number.POSITIVE_INFINITY);
    const nowMs = Date.now();
    const filter = { ...filterOf(values, nowMs), ids: positionals.length > 0 ? positionals : undefined };
    const isFiltered = Object.values(filter).some((part) => part !== undefined);
    if (isFiltered === (values.all === true)) throw new UsageError('expected ids, or which keys, or --all');
    if (!positionals.every(isIdShaped)) throw new UsageError('expected ids of 32 hex digits');
    await withStore(env, async ({ admin }) => {
      const count = orFail(await admin.countActive(filter, nowMs));
      if (count === 0) return say('there are no such active keys');
      await confirm(`${described(filter, count)}?`, values.yes === true);
      const progress = progressOf(count, 'revoked');
      // On stdout, to be kept: after a restore they must be revoked again.
      const revokedIds = async (ids: readonly string[], revoked: number) => {
        await writeOut(ids.map((id) => `${id}\n`).join('')).catch(() => {}); // the rest is revoked too
        progress(revoked);
      };
      const revoked = orFail(await revokeAll(admin, filter, nowMs, BY_COMMAND, revokedIds));
      say(`${revoked} revoked`);
    });
  },
};

const described = ({ owner }: KeyFilter, count: number): string =>
  `Revoke ${keysCounted(count)}${owner === undefined ? '' : ` of ${JSON.stringify(owner)}`}`;
