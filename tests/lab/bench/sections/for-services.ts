// /verify and /introspect, beside get_data over REST, with the same key.

import { buildDatabase } from '../database.ts';
import { introspectKey, responseTo, restGetData, verifyKey } from '../loads.ts';
import { measure, perSecond, ratio } from '../measure.ts';
import { startBare, startOurs } from '../ours.ts';
import { atLeast, type Section } from '../report.ts';

export const forServices: Section = async (plan) => {
  const { path, keys } = await buildDatabase(1000, 0, '["read","introspect"]');
  const [key = '', caller = ''] = keys;
  const loads = { rest: restGetData(key), verify: verifyKey(key), introspect: introspectKey(caller, key) };
  await using ours = await startOurs(path);
  await using bareVerify = await startBare(await responseTo(ours, loads.verify), 'nothing');
  await using bareIntrospect = await startBare(await responseTo(ours, loads.introspect), 'text');
  await responseTo(ours, loads.rest);
  const measured = await measure(
    {
      rest: { server: ours, load: loads.rest },
      bareVerify: { server: bareVerify, load: loads.verify },
      verify: { server: ours, load: loads.verify },
      bareIntrospect: { server: bareIntrospect, load: loads.introspect },
      introspect: { server: ours, load: loads.introspect },
    },
    plan,
  );
  return {
    rows: [
      { name: 'get_data over REST', measured: measured.rest },
      { name: "bare limit, /verify's response", measured: measured.bareVerify },
      { name: '**/verify**', measured: measured.verify, bare: measured.bareVerify },
      { name: "bare limit, /introspect's response", measured: measured.bareIntrospect },
      { name: '**/introspect**', measured: measured.introspect, bare: measured.bareIntrospect },
    ],
    targets: [
      atLeast("/verify, in get_data's rate over REST", ratio(measured.verify, measured.rest, perSecond), 1),
      atLeast("/introspect, in get_data's rate over REST", ratio(measured.introspect, measured.rest, perSecond), 0.8),
    ],
  };
};
