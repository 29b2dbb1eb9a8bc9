// What `keys block` and `keys unblock` share.

import type { Origin } from '../../keys/actor.ts';
import type { AdminStore } from '../../keys/admin.ts';
import type { StoreResult } from '../../keys/record.ts';
import { isStorable } from '../../lib/text.ts';
import {
  argumentsOf,
  BY_COMMAND,
  isoTime,
  keysCounted,
  localTime,
  orFail,
  say,
  usageError,
  type Verb,
  withStore,
  writeJson,
  writeTable,
} from './verb.ts';

export interface Blocking {
  readonly summary: string;
  readonly done: string;
  readonly change: (admin: AdminStore, owner: string, origin: Origin) => StoreResult<boolean>;
}

export function blockingVerb({ summary, done, change }: Blocking): Verb {
  const verb: Verb = {
    usage: '[OWNER] [--json]',
    summary,
    async run(args, env) {
      const { values, positionals } = argumentsOf(args, { json: { type: 'boolean' } }, verb, 1);
      const [owner] = positionals;
      if (owner === '' || (owner !== undefined && !isStorable(owner))) throw usageError(verb, 'expected one owner');
      await withStore(env, async ({ admin }) => {
        if (owner === undefined) return listBlocked(admin, values.json === true);
        const changed = orFail(await change(admin, owner, BY_COMMAND));
        const count = orFail(await admin.countActive({ owner }, Date.now())); // 0: perhaps mistyped
        say(`${JSON.stringify(owner)} is ${done}${changed ? '' : ' already'}, with ${keysCounted(count)}`);
      });
    },
  };
  return verb;
}

async function listBlocked(admin: AdminStore, asJson: boolean): Promise<void> {
  const owners = orFail(await admin.blockedOwners());
  if (asJson) return writeJson(owners.map(({ owner, blockedAtMs }) => ({ owner, blockedAt: isoTime(blockedAtMs) })));
  await writeTable([['OWNER', 'BLOCKED'], ...owners.map(({ owner, blockedAtMs }) => [owner, localTime(blockedAtMs)])]);
}
