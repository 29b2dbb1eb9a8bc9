// Users create keys: against a bare server that makes the same insert just as durably.

import { buildDatabase, userName, userToken } from '../database.ts';
import { createKey, responseTo } from '../loads.ts';
import { measure, perSecond, ratio } from '../measure.ts';
import { startOther, startOurs } from '../ours.ts';
import { atLeast, type Section } from '../report.ts';

/** One user may hold a thousand keys; with this many users none reaches that. */
const USERS = 2000;

export const creating: Section = async (plan) => {
  const [forOurs, forBare] = [await buildDatabase(1000), await buildDatabase(1000)];
  const tokens = await Promise.all(Array.from({ length: USERS }, (_, index) => userToken(userName(index))));
  const load = createKey(tokens);
  await using ours = await startOurs(forOurs.path);
  await using bare = await startOther('bare-insert', forBare.path);
  await responseTo(ours, load);
  const measured = await measure({ bare: { server: bare, load }, ours: { server: ours, load } }, plan);
  return {
    rows: [
      { name: 'bare server, durable INSERT', measured: measured.bare },
      { name: '**create_api_key**', measured: measured.ours, bare: measured.bare },
    ],
    targets: [atLeast('create_api_key, share of a bare INSERT', ratio(measured.ours, measured.bare, perSecond), 1.5)],
  };
};
