// Lets the page /keys edit one key and read its history, with the user's token. These are no tools: no model should
// change a key's scopes and end, and addresses don't belong in a transcript.
//
// POST /keys/update  { keyId, name?, scopes?, expiresInDays? } → 200 the key as a list shows it
// POST /keys/events  { keyId, cursor? }, of admins also { owner, cursor? }
//   → 200 { events: [{ at, kind, how, actor?, address?, fields?, fingerprint?, workload? }], nextCursor? }

import * as v from 'valibot';
import { type PersonOptions, personHandler } from '../../calls/person-requests.ts';
import { inputParserOf, text } from '../../calls/schema.ts';
import { invalidInput, type Problem } from '../../ground/problem.ts';
import { NO_CEILINGS } from '../../ground/rate-limit.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import { isObject } from '../../ground/text.ts';
import type { OriginOf, PersonBudget } from '../../keys/actor.ts';
import { type EditShownWith, editChecked, showEdit } from '../../keys/changes.ts';
import { endAfter } from '../../keys/grants.ts';
import { hasEnded, isIdShaped, KEY_NOT_FOUND, type ListedKey } from '../../keys/record.ts';
import type { KeyEdit, KeyStore } from '../../keys/store.ts';
import { keyIdInput, keyRequestFields, listedKey } from '../../tools/key-fields.ts';
import { createHistory, type HistoryOptions, type PastEvent } from './history.ts';

export interface OwnKeyRoutesOptions extends EditShownWith, HistoryOptions, PersonOptions {
  readonly store: KeyStore;
  readonly originOf: OriginOf;
  /** Limits what could add events without end. */
  readonly creations: PersonBudget;
}

/** Ceilings, and the right to grant, limit what a key is granted, and an edit grants nothing. */
const { name, scopes, expiresInDays } = keyRequestFields({ scopes: null, daysMax: null, limits: NO_CEILINGS });

const parseEdit = inputParserOf(
  v.strictObject({ ...keyIdInput.entries, name: v.optional(name), scopes: v.optional(scopes), expiresInDays }),
);

/** Parses an edit. An empty name, or empty scopes, count as missing. */
const readEdit = (body: unknown) =>
  parseEdit(isObject(body) ? Object.fromEntries(Object.entries(body).filter((field) => !isMissing(field))) : body);

const isMissing = ([field, value]: [string, unknown]): boolean =>
  (field === 'name' && value === '') || (field === 'scopes' && Array.isArray(value) && value.length === 0);

const CURSOR = /^[1-9]\d{0,15}$/;
const cursor = v.optional(v.pipe(v.string(), v.regex(CURSOR, 'Expected a nextCursor')));
const readQuestion = inputParserOf(
  v.pipe(
    v.strictObject({ keyId: v.optional(v.string()), owner: v.optional(text(1, 255)), cursor }),
    v.check(({ keyId, owner }) => (keyId === undefined) !== (owner === undefined), 'Expected either keyId or owner'),
  ),
);

export function ownKeyRoutes(options: OwnKeyRoutesOptions) {
  const { store, clock, originOf, creations } = options;
  const person = personHandler(options);
  const readHistory = createHistory(options);

  const edit = person(async (actor, body) => {
    const asked = readEdit(body);
    if (!asked.ok) return asked;
    const { keyId, expiresInDays: days, ...given } = asked.value;
    if (!isIdShaped(keyId)) return err(KEY_NOT_FOUND); // it may be a key
    const taken = creations.take(actor);
    if (!taken.ok) return taken;
    const wanted = { ...given, expiresAtMs: days && endAfter(days, clock.nowMs()) };
    const origin = originOf('page', actor, actor.actor);
    const edited = await editChecked(store, actor.userId, keyId, wanted, origin, (key) =>
      narrower(key, wanted, clock.nowMs()),
    );
    if (!edited.ok) return edited;
    return ok(listedKey(await showEdit(actor, edited.value, options), actor));
  });

  const history = person(async (actor, body, { isAdmin }) => {
    const asked = readQuestion(body);
    if (!asked.ok) return asked;
    const { keyId, owner, cursor } = asked.value;
    const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(cursor);
    const whose = owner === undefined ? { keyId: keyId ?? '' } : { owner };
    const page = await readHistory(actor, isAdmin, whose, before);
    if (!page.ok) return page;
    const { events, next } = page.value;
    return ok({ events: events.map(shownEvent), ...(next !== null && { nextCursor: String(next) }) });
  });

  return { edit, history };
}

const MORE =
  'A key gets neither more scopes nor a later end here: rotate it with another expiry, make a new key, or ask an admin';

/** Returns why the key may not be changed like this. */
function narrower(key: ListedKey, { scopes = [], expiresAtMs }: KeyEdit, nowMs: number): Result<void, Problem> {
  if (!key.active || hasEnded(key.expiresAtMs, nowMs)) return err({ code: 'key_not_active' });
  if (!scopes.every((scope) => key.scopes.includes(scope))) {
    return err(invalidInput('scopes', 'Expected scopes that it has', MORE));
  }
  if (expiresAtMs != null && key.expiresAtMs !== null && expiresAtMs > key.expiresAtMs) {
    return err(invalidInput('expiresInDays', 'Expected an earlier end than it has', MORE));
  }
  return ok(undefined);
}

const shownEvent = ({ atMs, kind, how, actor, address, fields, fingerprint, workload }: PastEvent) => ({
  at: atMs,
  kind,
  how,
  ...(actor !== null && { actor }),
  ...(address !== null && { address }),
  ...(fields !== null && { fields }),
  ...(fingerprint !== null && { fingerprint }),
  ...(workload !== null && { workload }),
});
