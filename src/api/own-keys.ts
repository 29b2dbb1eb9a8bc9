// Lets the page /keys edit one key and read its history, with the user's token. These are no tools: no model should
// change a key's scopes and end, and addresses don't belong in a transcript.
//
// POST /keys/update  { keyId, name?, scopes?, expiresInDays? } → 200 the key as a list shows it
// POST /keys/events  { keyId, cursor? } → 200 { events: [{ at, kind, how, actor?, address?, fields?, fingerprint? }], nextCursor? }

import * as v from 'valibot';
import type { Call } from '../calls/call.ts';
import type { Guard } from '../calls/guard.ts';
import { personHandler } from '../calls/person.ts';
import { inputParserOf } from '../calls/schema.ts';
import type { UserAuth } from '../calls/user-jwt.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Caller } from '../keys/actor.ts';
import type { PastEvent } from '../keys/history.ts';
import type { Keys } from '../keys/index.ts';
import type { OwnKey } from '../keys/listing.ts';
import type { AskedEdit } from '../keys/own-edits.ts';

export interface OwnKeyRoutesOptions {
  readonly keys: Pick<Keys, 'edit' | 'history'>;
  readonly guards: { readonly userJwt: Guard<Call, UserAuth> };
  readonly readOwnEdit: (body: unknown) => Result<AskedEdit & { readonly keyId: string }, Problem>;
  /** Returns a key as lists show it. */
  readonly listedKey: (key: OwnKey, caller: Caller) => object;
}

const CURSOR = /^[1-9]\d{0,15}$/;
const readQuestion = inputParserOf(
  v.strictObject({
    keyId: v.string(),
    cursor: v.optional(v.pipe(v.string(), v.regex(CURSOR, 'Expected a nextCursor'))),
  }),
);

export function ownKeyRoutes({ keys, guards, readOwnEdit, listedKey }: OwnKeyRoutesOptions) {
  const person = personHandler(guards.userJwt);

  const edit = person(async (actor, body) => {
    const asked = readOwnEdit(body);
    if (!asked.ok) return asked;
    const { keyId, ...changes } = asked.value;
    const edited = await keys.edit(actor, keyId, changes);
    return edited.ok ? ok(listedKey(edited.value, actor)) : edited;
  });

  const history = person(async (actor, body) => {
    const asked = readQuestion(body);
    if (!asked.ok) return asked;
    const { keyId, cursor } = asked.value;
    const page = await keys.history(actor, keyId, cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(cursor));
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
