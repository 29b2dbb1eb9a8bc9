// `keys block` and `keys unblock`: a blocked owner can neither use nor create keys, but loses none.

import { createAdminStore } from '../../doors/admin/index.ts';
import { createOwnerStore } from '../../doors/owners/index.ts';
import type { Database } from '../../store/database.ts';
import { command } from '../command.ts';
import { type Io, isoTime, keysCounted, localTime } from '../io.ts';
import { flag, OWNER, optional } from '../options.ts';
import { byCommand, withStore, withStoreToRead } from './database.ts';

export const block = command({
  name: 'keys block',
  summary:
    'Refuses all keys and user tokens of an owner, until unblocked. On a terminal it asks, unless --yes. Without an owner: lists those blocked.',
  options: { json: flag, yes: flag },
  argument: optional(OWNER),
  async run({ options: { json, yes }, argument: owner, io }) {
    if (owner === undefined) return listBlocked(json, io);
    await withStore(io, async ({ db }) => {
      const owners = createOwnerStore(db);
      const held = await keysOf(db, owner);
      await io.confirm(`Block ${JSON.stringify(owner)}, with ${held}?`, yes || !io.stdin.isTTY); // unblock undoes it
      const changed = await owners.block(owner, byCommand(io));
      io.say(`${JSON.stringify(owner)} is blocked ${changed ? 'now' : 'already'}, with ${held}`);
    });
  },
});

export const unblock = command({
  name: 'keys unblock',
  summary: 'Accepts the keys and user tokens of an owner again. Without an owner: lists those blocked.',
  options: { json: flag },
  argument: optional(OWNER),
  async run({ options: { json }, argument: owner, io }) {
    if (owner === undefined) return listBlocked(json, io);
    await withStore(io, async ({ db }) => {
      const owners = createOwnerStore(db);
      const changed = await owners.unblock(owner, byCommand(io));
      io.say(`${JSON.stringify(owner)} is ${changed ? 'unblocked' : 'not blocked'}, with ${await keysOf(db, owner)}`);
    });
  },
});

/** Returns the number of the owner's usable keys, in words. An owner without any may be a typing error. */
const keysOf = async (db: Database, owner: string): Promise<string> =>
  keysCounted(await createAdminStore(db).countActive({ owner }, Date.now()));

const listBlocked = (asJson: boolean, io: Io): Promise<void> =>
  withStoreToRead(io, async ({ db }) => {
    const { blockedAfter } = createOwnerStore(db);
    const writeCells = io.pagesUnder(['OWNER', 'BLOCKED']);
    for (let last: string | undefined = ''; last !== undefined; ) {
      const page = await blockedAfter(last);
      if (asJson)
        await io.writeJson(page.map(({ owner, blockedAtMs }) => ({ owner, blockedAt: isoTime(blockedAtMs) })));
      else await writeCells(page.map(({ owner, blockedAtMs }) => [owner, localTime(blockedAtMs)]));
      last = page.at(-1)?.owner;
    }
  });
