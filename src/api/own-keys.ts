// Lets the page /keys edit one key and read its history, with the user's token. These are no tools: no model should
// change a key's scopes and end, and addresses don't belong in a transcript.
//
// POST /keys/update  { keyId, name?, scopes?, expiresInDays? } → 200 the key as a list shows it
// POST /keys/events  { keyId, cursor? }, of admins also { owner, cursor? } → 200 { events: [{ at, kind, how, actor?, address?, fields?, fingerprint? }], nextCursor? }

import * as v from 'valibot';
import type { Call } from '../calls/call.ts';
import type { Guard } from '../calls/guard.ts';
import { personHandler } from '../calls/person.ts';
import { inputParserOf, text } from '../calls/schema.ts';
import type { UserAuth } from '../calls/user-jwt.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Actor, Caller } from '../keys/actor.ts';
import type { HistoryPage, PastEvent } from '../keys/history.ts';
import type { Keys } from '../keys/index.ts';
import type { OwnKey } from '../keys/listing.ts';
import type { AskedEdit } from '../keys/own-edits.ts';

export interface OwnKeyRoutesOptions {
  readonly keys: Pick<Keys, 'edit' | 'history'>;
  readonly guards: { readonly userJwt: Guard<Call, UserAuth> };
  readonly readOwnEdit: (body: unknown) => Result<AskedEdit & { readonly keyId: string }, Problem>;
  /** Returns a key as lists show it. */
  readonly listedKey: (key: OwnKey, caller: Caller) => object;
  /** Reads the events of anybody's key, or of an owner, for an admin; null: there are no admins. */
  readonly trail: ReadTrail | null;
}

type ReadTrail = (
  admin: Actor,
  whose: { readonly keyId: string } | { readonly owner: string },
  before: number,
) => Promise<Result<HistoryPage, Problem>>;

const CURSOR = /^[1-9]\d{0,15}$/;
const cursor = v.optional(v.pipe(v.string(), v.regex(CURSOR, 'Expected a nextCursor')));
const readQuestion = inputParserOf(
  v.pipe(
    v.strictObject({ keyId: v.optional(v.string()), owner: v.optional(text(1, 255)), cursor }),
    v.check(({ keyId, owner }) => (keyId === undefined) !== (owner === undefined), 'Expected either keyId or owner'),
  ),
);

export function ownKeyRoutes({ keys, guards, readOwnEdit, listedKey, trail }: OwnKeyRoutesOptions) {
  const person = personHandler(guards.userJwt);

  const edit = person(async (actor, body) => {
    const asked = readOwnEdit(body);
    if (!asked.ok) return asked;
    const { keyId, ...changes } = asked.value;
    const edited = await keys.edit(actor, keyId, changes);
    return edited.ok ? ok(listedKey(edited.value, actor)) : edited;
  });

  const history = person(async (actor, body, { isAdmin }) => {
    const asked = readQuestion(body);
    if (!asked.ok) return asked;
    const { keyId, owner, cursor } = asked.value;
    const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(cursor);
    const page = await (trail !== null && isAdmin
      ? trail(actor, owner === undefined ? { keyId: keyId ?? '' } : { owner }, before)
      : owner === undefined
        ? keys.history(actor, keyId ?? '', before)
        : err({ code: 'admin_required' } as const));
    if (!page.ok) return err(page.error);
    const { events, next } = page.value;
    return ok({ events: events.map(shownEvent), ...(next !== null && { nextCursor: String(next) }) });
  });

  return { edit: { post: edit }, history: { post: history } };
}

const shownEvent = ({ atMs, kind, how, actor, address, fields, fingerprint }: PastEvent) => ({
  at: atMs,
  kind,
  how,
  ...(actor !== null && { actor }),
  ...(address !== null && { address }),
  ...(fields !== null && { fields }),
  ...(fingerprint !== null && { fingerprint }),
});
