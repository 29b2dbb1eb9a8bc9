// `bun run screenshots`: makes the pictures of the documents anew, from the widgets' lab.

import { join } from 'node:path';
import type { FrameLocator } from 'playwright-core';
import { serveLab } from '../../browser/widgets/lab/lab.ts';
import { chromiumPath, launchBrowser } from '../../support/browser.ts';

const FOLDER = join(import.meta.dir, 'widgets');

const nothing = async () => {};
const showKey = (widget: FrameLocator) => widget.getByRole('button', { name: 'Show key' }).click();
const askToRotate = async (widget: FrameLocator) => {
  await widget.getByRole('button', { name: 'Active 3' }).click(); // so that no row is cut off
  await widget.getByRole('button', { name: 'Rotate CI pipeline' }).click();
};
const rotate = async (widget: FrameLocator) => {
  await askToRotate(widget);
  await widget.getByRole('group', { name: 'Rotate CI pipeline?' }).getByRole('button', { name: 'Rotate' }).click();
  await widget.getByRole('group', { name: 'New key of CI pipeline' }).waitFor();
};

const PICTURES = [
  { file: 'api-key-created-light', widget: 'api-key-created', query: 'theme=light&width=480', act: nothing },
  { file: 'api-key-created-dark', widget: 'api-key-created', query: 'theme=dark&width=480', act: showKey },
  { file: 'api-key-rotated', widget: 'api-key-created', query: 'theme=light&width=480&data=rotated', act: nothing },
  { file: 'api-keys-list-light', widget: 'api-keys-list', query: 'theme=light', act: nothing },
  { file: 'api-keys-list-dark', widget: 'api-keys-list', query: 'theme=dark', act: askToRotate },
  { file: 'api-keys-list-narrow', widget: 'api-keys-list', query: 'theme=light&width=320', act: nothing },
  { file: 'api-keys-list-rotated', widget: 'api-keys-list', query: 'theme=dark', act: rotate },
] as const;

if (chromiumPath === null) throw new Error('no Chromium on this machine');
const lab = serveLab();
const browser = await launchBrowser(chromiumPath);
for (const { file, widget, query, act } of PICTURES) {
  // 840 px give the widget as much room as a wide chat window does.
  const page = await browser.newPage({ viewport: { width: 888, height: 1000 } });
  await page.goto(`${lab.url}/?widget=${widget}&${query}`);
  const shown = page.frameLocator('iframe');
  await shown.getByText(/^(Loading keys|Creating the key)…$/).waitFor({ state: 'hidden' });
  await act(shown);
  await page.mouse.move(0, 0);
  await shown.locator('body').evaluate(() => (document.activeElement as HTMLElement).blur());
  await page.locator('iframe').screenshot({ path: join(FOLDER, `${file}.png`) });
  await page.close();
}
await browser.close();
await lab.stop();
