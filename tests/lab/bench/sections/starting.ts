// From nothing to the first response: against a Bun script that does nothing, and as one file against such a file.

import { join } from 'node:path';
import { output } from '../../../support/command.ts';
import { temporaryFolder } from '../../../support/folder.ts';
import { executable } from '../../../support/packed.ts';
import { buildDatabase } from '../database.ts';
import { responseTo, restGetData } from '../loads.ts';
import { median, msOf } from '../measure.ts';
import { MAIN, serverScript, startOurs } from '../ours.ts';
import { atMost, type Section } from '../report.ts';

export const starting: Section = async ({ starts }) => {
  const { path, keys } = await buildDatabase(1000);
  const load = restGetData(keys[0] ?? '');

  /** The median of what ours takes more. */
  async function extraMs(ours: readonly string[], empty: readonly string[]): Promise<number> {
    const moreMs: number[] = [];
    for (let round = 0; round < starts; round += 1) {
      const emptyMs = await msOf(() => Bun.spawn([...empty]).exited);
      await using stack = new AsyncDisposableStack();
      const oursMs = await msOf(async () => responseTo(stack.use(await startOurs(path, {}, ours)), load));
      moreMs.push(oursMs - emptyMs);
    }
    return median(moreMs);
  }

  const scripts = await extraMs([process.execPath, MAIN], [process.execPath, serverScript('empty')]);
  const folder = temporaryFolder();
  const emptyFile = join(folder, 'empty');
  await output([process.execPath, 'build', '--compile', serverScript('empty'), '--outfile', emptyFile], {
    cwd: folder,
  });
  const files = await extraMs([await executable()], [emptyFile]);
  return {
    rows: [],
    targets: [
      atMost('start to first response, more than an empty script', scripts, 110, ' ms'),
      atMost('start of the executable, more than of an empty one', files, 40, ' ms'),
    ],
  };
};
