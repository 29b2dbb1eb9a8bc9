// `bun tests/lab/ways.ts [--times 5]`: the ways to a key, timed from what a program shows to its first call, in a browser
// that acts without a pause: pasting, a click, and a program without a browser. Prints the median of each in seconds, the
// clicks, and the fields that are filled in.

import { parseArgs } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { chromiumPath, launchBrowser } from '../support/browser.ts';
import { callOver, userToken } from '../support/client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { askForKey, pollForKey } from '../support/key-request.ts';
import { createSignIn } from '../support/oauth-client.ts';
import { CLIENTS } from '../support/oauth-clients.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';

/** What a person does. */
interface Hand {
  /** Pastes a user token of somebody who has no keys, as the page asks for. */
  signIn(): Promise<void>;
  click(role: 'link' | 'button' | 'checkbox', name: string): Promise<void>;
  fill(label: string | RegExp, text: string): Promise<void>;
}

interface Done {
  readonly clicks: number;
  readonly fields: number;
}

function handOn(page: Page, person: string): Hand & { done: () => Done } {
  let [clicks, fields] = [0, 0];
  const click: Hand['click'] = async (role, name) => {
    clicks += 1;
    await page.getByRole(role, { name, exact: true }).click();
  };
  const fill: Hand['fill'] = async (label, text) => {
    fields += 1;
    await page.getByLabel(label).fill(text);
  };
  return {
    click,
    fill,
    async signIn() {
      await fill(/paste a user token/i, await userToken(person));
      await click('button', 'Sign in');
    },
    done: () => ({ clicks, fields }),
  };
}

type Way = (server: ServerProcess, page: Page, hand: Hand) => Promise<void>;

/** From the 401 of an official client to its first call; `answer` is what happens at the page that it opens. */
async function connect(server: ServerProcess, page: Page, answer: (page: URL) => Promise<void>): Promise<void> {
  const kind = CLIENTS['SDK v2 over Streamable HTTP'];
  if (kind === undefined) throw new Error('no such client');
  let back: URL | undefined;
  const callback = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request) {
      back ??= new URL(request.url);
      return new Response('connected');
    },
  });
  const { provider, authorizationUrl } = createSignIn(undefined, undefined, `${callback.url}callback`);
  const url = new URL(`${server.url}/mcp`);
  const first = kind.connection(url, provider);
  await first.connect().catch(() => {});
  await answer(authorizationUrl() ?? url);
  await page.getByText('connected').waitFor();
  await first.finishAuth(back?.searchParams ?? new URLSearchParams());
  const client = kind.connection(url, provider);
  await client.connect();
  const { isError } = (await client.callTool({ name: 'get_data', arguments: {} })) as { isError?: boolean };
  if (isError) throw new Error('the first call was refused');
  await client.close();
  await callback.stop(true);
}

const WAYS: Readonly<Record<string, Way>> = {
  'pasting: a key is made on the page, copied, and pasted into the client’s page': (server, page, hand) =>
    connect(server, page, async (authorize) => {
      await page.goto(`${server.url}/keys`);
      await hand.signIn();
      await hand.fill('Name', 'client');
      await hand.click('checkbox', 'read');
      await hand.click('button', 'Create key');
      await hand.click('button', 'Copy');
      const key = await page.evaluate(() => navigator.clipboard.readText());
      await page.goto(authorize.href);
      await hand.fill(/API key/, key);
      await hand.click('button', 'Hand over the key');
    }),
  'a click': (server, page, hand) =>
    connect(server, page, async (authorize) => {
      await page.goto(authorize.href);
      await hand.click('link', 'Make a key for this connection');
      await hand.signIn();
      await hand.click('button', 'Make the key and hand it over');
    }),
  'a program without a browser, its link opened on a phone': async (server, page, hand) => {
    const { body: asked } = await askForKey(server, { client_name: 'agent', scope: 'read' });
    await page.goto(asked.verification_uri_complete);
    await hand.signIn();
    await hand.click('button', 'Yes, it shows this code');
    await hand.click('checkbox', 'read');
    await hand.click('button', 'Make the key');
    await page.getByText('The program gets its key').waitFor();
    const { body } = await pollForKey(server, asked.device_code);
    const { status } = await callOver(server.url, 'get_data', {}, { 'x-api-key': body.access_token });
    if (status !== 200) throw new Error(`the first call responded ${status}`);
  },
};

async function time(browser: Browser, server: ServerProcess, way: Way): Promise<Done & { seconds: number }> {
  const context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const hand = handOn(page, crypto.randomUUID());
  const startedAtMs = performance.now();
  await way(server, page, hand);
  const seconds = (performance.now() - startedAtMs) / 1000;
  await context.close();
  return { seconds, ...hand.done() };
}

const { values } = parseArgs({ options: { times: { type: 'string', default: '5' } } });
if (chromiumPath === null) throw new Error('needs Chromium');
const browser = await launchBrowser(chromiumPath);
const env = { OAUTH_REDIRECTS: 'loopback', OAUTH_DEVICE: '1', JWT_SECRET: TEST_SECRET };
const server = await startServer({ env, folder: temporaryFolder() });
try {
  for (const [name, way] of Object.entries(WAYS)) {
    await time(browser, server, way); // the first time, the browser fills its caches
    const timed = [];
    for (let times = 0; times < Number(values.times); times += 1) timed.push(await time(browser, server, way));
    const sorted = timed.map(({ seconds }) => seconds).sort((a, b) => a - b);
    const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
    console.log(`${median.toFixed(2)} s, ${timed[0]?.clicks} clicks, ${timed[0]?.fields} fields: ${name}`);
  }
} finally {
  await server.kill();
  await browser.close();
}
