// From nothing to the first response: against a Bun script that does nothing.

import { buildDatabase } from '../database.ts';
import { responseTo, restGetData } from '../loads.ts';
import { median } from '../measure.ts';
import { serverScript, startOurs } from '../ours.ts';
import { atMost, type Section } from '../report.ts';

export const starting: Section = async ({ starts }) => {
  const { path, keys } = await buildDatabase(1000);
  const load = restGetData(keys[0] ?? '');
  const extraMs: number[] = [];
  for (let round = 0; round < starts; round += 1) {
    const emptyMs = await timed(() => Bun.spawn([process.execPath, serverScript('empty')]).exited);
    const oursMs = await timed(async () => {
      const ours = await startOurs(path);
      await responseTo(ours, load);
      return ours;
    });
    extraMs.push(oursMs.ms - emptyMs.ms);
    await oursMs.value[Symbol.asyncDispose]();
  }
  return {
    rows: [],
    targets: [atMost('start to first response, more than an empty script', median(extraMs), 110, ' ms')],
  };
};

async function timed<T>(run: () => Promise<T>): Promise<{ ms: number; value: T }> {
  const startedAtMs = performance.now();
  const value = await run();
  return { ms: performance.now() - startedAtMs, value };
}
