// A key as admins see it: as lists show it, with its owner and its data.

import * as v from 'valibot';
import type { Caller } from '../../keys/actor.ts';
import type { OwnKey } from '../../keys/listing.ts';
import { listedKey, listedKeyFields } from '../../tools/key-fields.ts';

export const adminListedFields = {
  owner: v.string(),
  ...listedKeyFields,
  metadata: v.optional(
    v.pipe(
      v.record(v.string(), v.string()),
      v.description("The key's own data, by name; only of a key that has some."),
    ),
  ),
};

export const adminListed = (key: OwnKey, caller: Caller) => ({
  owner: key.userId,
  ...listedKey(key, caller),
  ...(key.metadata !== null && { metadata: { ...key.metadata } }),
});
