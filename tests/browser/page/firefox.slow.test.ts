// The page /keys in Firefox, if there is one: from a link that signs in to the end of a key, and what only Firefox does. It
// is driven by WebDriver BiDi (https://w3c.github.io/webdriver-bidi): Playwright's driver asks the version of Debian for
// commands that it doesn't have.

import { expect, test } from 'bun:test';
import { rmSync } from 'node:fs';
import { BROWSER_TEST_MS, STEP_MS_MAX } from '../../support/browser.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { bearer } from '../../support/test-app.ts';
import { beside } from './customer-app.ts';
import { appForBrowser } from './keys-page.ts';

const firefoxPath = Bun.which('firefox-esr') ?? Bun.which('firefox');

const LOOK_EVERY_MS = 50;

interface Told {
  readonly id?: number;
  readonly type: string;
  readonly result?: unknown;
  readonly message?: string;
}

interface Firefox extends AsyncDisposable {
  open(url: string): Promise<void>;
  /** Goes back (-1) or forward (1), as the browser's buttons do. */
  go(delta: number): Promise<void>;
  /** Waits until the page shows this text. */
  shows(text: string): Promise<void>;
  /** Clicks what is found by a selector, once it is there; with `text`, only what has exactly that. */
  click(selector: string, text?: string): Promise<void>;
  /** Presses keys one after another, all of `held` meanwhile. */
  type(text: string, held?: readonly string[]): Promise<void>;
}

/** Resolves with the address at which the browser listens. */
async function addressOf(stderr: ReadableStream<Uint8Array>): Promise<string> {
  let said = '';
  for await (const chunk of stderr) {
    said += new TextDecoder().decode(chunk); // its line is ASCII
    const [, address] = /WebDriver BiDi listening on (ws:\S+)/.exec(said) ?? [];
    if (address !== undefined) return address;
  }
  throw new Error(`Firefox ended: ${said}`);
}

/** Connects to the browser; returns what sends it a command. */
async function connect(address: string) {
  const socket = new WebSocket(`${address}/session`);
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  socket.onmessage = ({ data }) => {
    const { id, type, result, message } = JSON.parse(String(data)) as Told;
    const asked = waiting.get(id ?? 0);
    if (type === 'success') asked?.resolve(result);
    else if (type === 'error') asked?.reject(new Error(message));
  };
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = reject;
  });
  let sent = 0;
  return (method: string, params: object): Promise<unknown> => {
    const asked = Promise.withResolvers<unknown>();
    sent += 1;
    waiting.set(sent, asked);
    socket.send(JSON.stringify({ id: sent, method, params }));
    return asked.promise;
  };
}

async function startFirefox(path: string): Promise<Firefox> {
  const profile = temporaryFolder();
  const browser = Bun.spawn([path, '--headless', '--no-remote', '--remote-debugging-port', '0', '--profile', profile], {
    env: { PATH: process.env.PATH ?? '', HOME: profile, TMPDIR: profile },
    stdout: 'ignore',
    stderr: 'pipe',
  });
  const send = await connect(await addressOf(browser.stderr));
  await send('session.new', { capabilities: {} });
  const { contexts } = (await send('browsingContext.getTree', {})) as { contexts: { context: string }[] };
  const context = contexts[0]?.context;

  async function evaluate(expression: string): Promise<{ type: string; value?: unknown; sharedId?: string }> {
    const params = { expression, target: { context }, awaitPromise: true };
    return ((await send('script.evaluate', params)) as { result: { type: string } }).result;
  }
  async function found(expression: string) {
    for (const startedAtMs = performance.now(); performance.now() - startedAtMs < STEP_MS_MAX; ) {
      const result = await evaluate(expression).catch(() => null); // the page has just gone
      if (result?.type === 'node' || result?.value === true) return result;
      await Bun.sleep(LOOK_EVERY_MS);
    }
    throw new Error(`not in Firefox: ${expression}`);
  }
  const perform = (...actions: object[]) => send('input.performActions', { context, actions });

  return {
    async open(url) {
      await send('browsingContext.navigate', { context, url, wait: 'complete' });
    },
    async go(delta) {
      await send('browsingContext.traverseHistory', { context, delta });
    },
    async shows(text) {
      await found(`document.body.innerText.includes(${JSON.stringify(text)})`);
    },
    async click(selector, text) {
      const isIt = text === undefined ? 'true' : `one.textContent.trim() === ${JSON.stringify(text)}`;
      const { sharedId } = await found(
        `(() => { const it = [...document.querySelectorAll(${JSON.stringify(selector)})].find((one) => ${isIt});
          it?.scrollIntoView({ block: 'center', behavior: 'instant' }); return it; })()`,
      );
      const origin = { type: 'element', element: { sharedId } };
      const actions = [
        { type: 'pointerMove', x: 0, y: 0, origin },
        { type: 'pointerDown', button: 0 },
        { type: 'pointerUp', button: 0 },
      ];
      await perform({ type: 'pointer', id: 'mouse', actions });
    },
    async type(text, held = []) {
      const press = (value: string) => ({ type: 'keyDown', value });
      const release = (value: string) => ({ type: 'keyUp', value });
      const actions = [
        ...held.map(press),
        ...[...text].flatMap((value) => [press(value), release(value)]),
        ...held.map(release),
      ];
      await perform({ type: 'key', id: 'keyboard', actions });
    },
    async [Symbol.asyncDispose]() {
      browser.kill();
      await browser.exited;
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

const CONTROL = '\ue009'; // WebDriver §17.4.2

test.skipIf(firefoxPath === null)(
  'in Firefox a key is made, copied, found by pasting, and revoked',
  async () => {
    await using app = await appForBrowser();
    await using firefox = await startFirefox(firefoxPath ?? '');
    await firefox.open(`${app.url}/keys#token=${await app.token('alice')}`);
    await firefox.shows('No API keys yet');
    await firefox.click('#name');
    await firefox.type('of a fox');
    await firefox.click('input[name="scopes"][value="read"]');
    await firefox.click('button', 'Create key');
    await firefox.click('[aria-label="API key"] button.solid');
    await firefox.shows('Copied');
    await firefox.click('button', 'I have saved it');
    await firefox.click('input[type="search"]');
    await firefox.type('v', [CONTROL]);
    await firefox.shows('It is “');
    await firefox.shows('Made by alice');
    await firefox.click('[aria-label="Revoke of a fox"]');
    await firefox.click('[aria-label="Revoke of a fox?"] button', 'Revoke');
    await firefox.shows('API key revoked successfully');
    const { body } = await app.call('list_api_keys', {}, await bearer(app, 'alice'));
    expect(body.keys).toMatchObject([{ name: 'of a fox', scopes: ['read'], active: false }]);
  },
  BROWSER_TEST_MS,
);

test.skipIf(firefoxPath === null)(
  'in Firefox a sign-in at an app that was left by the browser’s buttons, and gone on with, goes on with what waits',
  async () => {
    await using there = await beside('bun', { OAUTH_DEVICE: '1' });
    await using firefox = await startFirefox(firefoxPath ?? '');
    await firefox.open(`${there.app.url}/keys#ask=BCDF-GHJK`);
    await firefox.click('[data-at="leave"]');
    await firefox.shows('alice');
    await firefox.go(-1);
    await firefox.shows('whether a program gets the key that it waits for');
    await firefox.go(1);
    await firefox.click('a', 'alice');
    await firefox.shows('Signed in as alice');
    await firefox.shows('BCDF-GHJK');
  },
  BROWSER_TEST_MS,
);
