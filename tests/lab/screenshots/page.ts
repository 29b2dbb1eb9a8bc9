// `bun run screenshots`: makes the pictures of the pages /keys and /authorize anew, in each of their states, light and dark;
// with names of states: those alone.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { AUTHORIZE, appIn, openIn, STATES } from '../../browser/page/states.ts';
import { chromiumPath, launchBrowser } from '../../support/browser.ts';

const NAMES = process.argv.slice(2);
const FOLDER = join(import.meta.dir, 'page');
/** The column and its margins; on phones, by the state. */
const WIDTH = 928;
const NARROW: Readonly<Record<string, number>> = {
  keys: 320,
  'form-limits': 320,
  'authorize-document': 390,
  'authorize-document-here': 390,
  'all-keys': 390,
  ...Object.fromEntries(STATES.filter(({ name }) => name.startsWith('owner')).map(({ name }) => [name, 390])),
};
/** What a picture shows at most: they stand in the repository. */
const HEIGHT_MAX = 700;

if (chromiumPath === null) throw new Error('no Chromium on this machine');
mkdirSync(FOLDER, { recursive: true });
const browser = await launchBrowser(chromiumPath);
for (const state of [...STATES, ...AUTHORIZE].filter(({ name }) => NAMES.length === 0 || NAMES.includes(name))) {
  const narrow = NARROW[state.name];
  for (const [width, suffix] of [[WIDTH, ''] as const, ...(narrow ? [[narrow, '-narrow'] as const] : [])]) {
    await using app = await appIn(state);
    const page = await browser.newPage({ viewport: { width, height: 700 } });
    await openIn(state, page, app);
    await page.evaluate(() => (document.activeElement as HTMLElement).blur());
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      const height = await page.evaluate(() => document.body.getBoundingClientRect().height);
      await page.setViewportSize({ width, height: Math.min(Math.ceil(height), HEIGHT_MAX) });
      await page.screenshot({ path: join(FOLDER, `${state.name}${suffix}-${colorScheme}.png`) });
    }
    await page.close();
  }
}
await browser.close();
process.exit(0); // the issuers of the states still listen
