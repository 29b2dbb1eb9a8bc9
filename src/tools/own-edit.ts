// What an owner's edit of a key may say, as the page of keys sends it, in the fields that the tools have.

import * as v from 'valibot';
import { inputParserOf } from '../calls/schema.ts';
import type { InvalidInput } from '../ground/problem.ts';
import { NO_CEILINGS } from '../ground/rate-limit.ts';
import type { Result } from '../ground/result.ts';
import { isObject } from '../ground/text.ts';
import type { AskedEdit } from '../keys/own-edits.ts';
import { keyIdInput, keyRequestFields } from './key-fields.ts';

/** The ceilings bound what a key is given, and nothing is given here. */
const { name, scopes, expiresInDays } = keyRequestFields({ scopes: null, daysMax: null, limits: NO_CEILINGS });

const parse = inputParserOf(
  v.strictObject({ ...keyIdInput.entries, name: v.optional(name), scopes: v.optional(scopes), expiresInDays }),
);

/** Reads an edit. A name or scopes that are empty count as left out. */
export const readOwnEdit = (body: unknown): Result<AskedEdit & { readonly keyId: string }, InvalidInput> =>
  parse(isObject(body) ? Object.fromEntries(Object.entries(body).filter((field) => !isLeftOut(field))) : body);

const isLeftOut = ([field, value]: [string, unknown]): boolean =>
  (field === 'name' && value === '') || (field === 'scopes' && Array.isArray(value) && value.length === 0);
