// `keys block` and `keys unblock`: a blocked owner can neither use nor create keys; none is lost.

import type { Origin } from '../../keys/actor.ts';
import type { AdminStore } from '../../keys/admin.ts';
import { isStorable } from '../../lib/text.ts';
import type { StoreResult } from '../../problem.ts';
import { argumentsOf } from './arguments.ts';
import { BY_COMMAND, orFail, withStore } from './database.ts';
import { isoTime, keysCounted, localTime, say, writeJson, writeTable } from './terminal.ts';
import { UsageError, type Verb } from './verb.ts';

export const block = blockingVerb(
  'block',
  'Refuses all keys and user tokens of an owner, until unblocked. Without an owner: lists those blocked.',
  { changed: 'blocked now', unchanged: 'blocked already' },
  (admin, owner, origin) => admin.block(owner, origin),
);

export const unblock = blockingVerb(
  'unblock',
  'Accepts the keys and user tokens of an owner again. Without an owner: lists those blocked.',
  { changed: 'unblocked', unchanged: 'not blocked' },
  (admin, owner, origin) => admin.unblock(owner, origin),
);

type Change = (admin: AdminStore, owner: string, origin: Origin) => StoreResult<boolean>;

interface Said {
  readonly changed: string;
  /** It was so before. */
  readonly unchanged: string;
}

function blockingVerb(name: string, summary: string, said: Said, change: Change): Verb {
  return {
    usage: `${name} [OWNER] [--json]`,
    summary,
    async run(args, env) {
      const { values, positionals } = argumentsOf(args, { json: { type: 'boolean' } }, 1);
      const [owner] = positionals;
      if (owner === '' || (owner !== undefined && !isStorable(owner))) throw new UsageError('expected one owner');
      await withStore(env, async ({ admin }) => {
        if (owner === undefined) return listBlocked(admin, values.json === true);
        const changed = orFail(await change(admin, owner, BY_COMMAND));
        const count = orFail(await admin.countActive({ owner }, Date.now())); // 0: perhaps a typo
        say(`${JSON.stringify(owner)} is ${changed ? said.changed : said.unchanged}, with ${keysCounted(count)}`);
      });
    },
  };
}

async function listBlocked(admin: AdminStore, asJson: boolean): Promise<void> {
  const owners = orFail(await admin.blockedOwners());
  if (asJson) return writeJson(owners.map(({ owner, blockedAtMs }) => ({ owner, blockedAt: isoTime(blockedAtMs) })));
  await writeTable([['OWNER', 'BLOCKED'], ...owners.map(({ owner, blockedAtMs }) => [owner, localTime(blockedAtMs)])]);
}
