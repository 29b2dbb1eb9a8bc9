// Parses an owner's edit of a key from the page /keys. Its fields are those of the tools.

import * as v from 'valibot';
import { inputParserOf } from '../calls/schema.ts';
import type { InvalidInput } from '../ground/problem.ts';
import { NO_CEILINGS } from '../ground/rate-limit.ts';
import type { Result } from '../ground/result.ts';
import { isObject } from '../ground/text.ts';
import type { AskedEdit } from '../keys/own-edits.ts';
import { keyIdInput, keyRequestFields } from './key-fields.ts';

/** Ceilings limit what a key is granted, and an edit grants nothing. */
const { name, scopes, expiresInDays } = keyRequestFields({ scopes: null, daysMax: null, limits: NO_CEILINGS });

const parse = inputParserOf(
  v.strictObject({ ...keyIdInput.entries, name: v.optional(name), scopes: v.optional(scopes), expiresInDays }),
);

/** Parses an edit. An empty name, or empty scopes, count as missing. */
export const readOwnEdit = (body: unknown): Result<AskedEdit & { readonly keyId: string }, InvalidInput> =>
  parse(isObject(body) ? Object.fromEntries(Object.entries(body).filter((field) => !isMissing(field))) : body);

const isMissing = ([field, value]: [string, unknown]): boolean =>
  (field === 'name' && value === '') || (field === 'scopes' && Array.isArray(value) && value.length === 0);
