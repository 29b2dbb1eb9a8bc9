// `keys update`: changes a key's limit, quota, name, expiry, scopes or metadata.

import * as v from 'valibot';
import { parserOf } from '../../calls/schema.ts';
import { createAdminStore, updateKey } from '../../doors/admin/index.ts';
import { NO_CEILINGS } from '../../ground/rate-limit.ts';
import { OPERATORS_SCOPES, unknownScopes } from '../../keys/grants.ts';
import { keyRequestFields } from '../../tools/key-fields.ts';
import { command } from '../command.ts';
import { CommandError, UsageError } from '../io.ts';
import { ID, LIMIT, META, many, NAME, NUMBER, needed, optional, optionalOr, QUOTA, SCOPE } from '../options.ts';
import { byCommand, usageErrorOf, withStore } from './database.ts';

/** The word that removes a key's own limit or quota, so that the server's applies. */
const DEFAULT = 'default';

export const verb = command({
  name: 'keys update',
  summary: 'Changes a key. Days count from now; --meta replaces all data. A revoked key stays revoked.',
  options: {
    limit: optionalOr(LIMIT, DEFAULT),
    quota: optionalOr(QUOTA, DEFAULT),
    name: optional(NAME),
    days: optionalOr(NUMBER, 'never'),
    scope: many(SCOPE),
    meta: META,
  },
  argument: needed(ID),
  async run({ options, argument: id, io }) {
    const { name, days, limit: rateLimit, quota, meta: metadata } = options;
    const scopes = options.scope.length > 0 ? options.scope : undefined;
    const changes = { name, scopes, rateLimit, quota, metadata };
    if (days === undefined && Object.values(changes).every((value) => value === undefined))
      throw new UsageError('expected an option');
    await withStore(io, async (keys, { keyCeilings }) => {
      const fields = v.partial(v.strictObject(keyRequestFields({ ...keyCeilings, limits: NO_CEILINGS })));
      const fit = parserOf(fields)({ name, scopes, expiresInDays: days ?? undefined });
      if (!fit.ok) throw usageErrorOf(fit.error);
      const store = createAdminStore(keys.db);
      const held = (await store.find({ id })).flatMap((key) => key.scopes);
      const issues = unknownScopes(keyCeilings.scopes, scopes ?? [], [...OPERATORS_SCOPES, ...held]);
      if (issues.length > 0) throw usageErrorOf({ code: 'invalid_input', issues });
      const updated = await updateKey(keys, store, id, { ...changes, expiresInDays: days }, byCommand(io));
      if (updated === null) throw new CommandError('there is no such key');
      io.say(updated.changed === null ? `${id} was so already` : `updated ${id}`);
    });
  },
});
