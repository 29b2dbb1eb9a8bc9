// Signed-in users list their ten keys, with tokens seen before: against a bare server that does the same SELECT.

import { buildDatabase, KEYS_PER_USER, userName, userToken } from '../database.ts';
import { listKeys, responseTo } from '../loads.ts';
import { measure, perSecond, ratio } from '../measure.ts';
import { startOther, startOurs } from '../ours.ts';
import { atLeast, type Section } from '../report.ts';

/** A user may list 20 times a second: together they may list more than a server can. */
const USERS = 1000;

export const listing: Section = async (plan) => {
  const { path } = await buildDatabase(USERS * KEYS_PER_USER);
  const tokens = await Promise.all(Array.from({ length: USERS }, (_, index) => userToken(userName(index))));
  const load = listKeys(tokens);
  await using ours = await startOurs(path);
  await using bare = await startOther('bare-list', path, userName(0));
  for (const server of [ours, bare]) {
    const { keys } = JSON.parse((await responseTo(server, load)).body) as { keys: unknown[] };
    if (keys.length !== KEYS_PER_USER) throw new Error(`${server.name} listed ${keys.length} keys`);
  }
  const measured = await measure({ ours: { server: ours, load }, bare: { server: bare, load } }, plan);
  return {
    rows: [
      { name: 'bare server, SELECT of 10 keys', measured: measured.bare },
      { name: '**list_api_keys, 10 keys**', measured: measured.ours, bare: measured.bare },
    ],
    targets: [atLeast('list_api_keys, share of a bare SELECT', ratio(measured.ours, measured.bare, perSecond), 0.6)],
  };
};
