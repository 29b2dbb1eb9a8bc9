// A customer's app with sessions of its own, made with a recipe, and a key server beside it (KEYS_PAGE_SIGN_IN).

import type { Server } from 'node:http';
import { type Env, TEST_SECRET } from '../../support/test-app.ts';
import { appForBrowser } from './keys-page.ts';

interface User {
  readonly id: string;
  readonly name: string;
  readonly mayHaveKeys?: boolean;
}
const USERS: readonly User[] = [
  { id: 'alice', name: 'Alice A.' },
  { id: 'bob', name: 'Bob', mayHaveKeys: false },
];

/** A customer's own sign-in: a cookie, which a link of /login sets. */
const userIn = (cookie: string | null | undefined) => USERS.find(({ id }) => cookie?.includes(`who=${id}`)) ?? null;
const loginPage = (next: string) =>
  USERS.map(({ id }) => `<a href="/in?who=${id}&next=${encodeURIComponent(next)}">${id}</a>`).join(' ');
const HTML = { 'content-type': 'text/html' };

interface CustomerApp {
  readonly url: string;
  close(): Promise<unknown>;
}

/** The recipe's handler, as it is read by an app of this environment. */
async function recipe(file: 'express' | 'bun', keysUrl: string) {
  const before = { KEYS_URL: process.env.KEYS_URL, JWT_SECRET: process.env.JWT_SECRET };
  Object.assign(process.env, { KEYS_URL: keysUrl, JWT_SECRET: TEST_SECRET });
  try {
    return (await import(`../../recipes/beside/${file}.js?${keysUrl}`)).keysSignIn;
  } finally {
    for (const [name, value] of Object.entries(before)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}

/** `signIn`: the handler of /keys-sign-in, once the key server is there. */
function withBun(
  signIn: () => Promise<(userOf: (request: Request) => User | null) => (request: Request) => Promise<Response>>,
): CustomerApp {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const { pathname, searchParams } = new URL(request.url);
      const next = searchParams.get('next') ?? '/';
      if (pathname === '/login') return new Response(loginPage(next), { headers: HTML });
      if (pathname === '/in') {
        const headers = { location: next, 'set-cookie': `who=${searchParams.get('who')}; HttpOnly` };
        return new Response(null, { status: 303, headers });
      }
      return (await signIn())((asked) => userIn(asked.headers.get('cookie')))(request);
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, close: () => server.stop(true) };
}

/** What is used of express, which comes without types. */
interface Asked {
  readonly query: Readonly<Record<string, string>>;
  readonly headers: { readonly cookie?: string };
}
interface Answer {
  type(type: string): Answer;
  send(text: string): void;
  cookie(name: string, value: string | undefined, options: object): Answer;
  redirect(status: number, to: string): void;
}
type Handle = (request: Asked, response: Answer, next: unknown) => unknown;
interface Express {
  get(path: string, handle: Handle): void;
  listen(port: number, host: string, done: () => void): Server;
}

async function withExpress(
  signIn: () => Promise<(userOf: (request: Asked) => User | null) => Handle>,
): Promise<CustomerApp> {
  const { default: express } = await import('express' as string);
  const app: Express = express();
  app.get('/login', (request, response) => response.type('html').send(loginPage(request.query.next ?? '')));
  app.get('/in', (request, response) => {
    response.cookie('who', request.query.who, { httpOnly: true }).redirect(303, request.query.next ?? '');
  });
  app.get('/keys-sign-in', async (request, response, next) =>
    (await signIn())((asked) => userIn(asked.headers.cookie))(request, response, next),
  );
  const server = await new Promise<Server>((resolve) => {
    const listening = app.listen(0, '127.0.0.1', () => resolve(listening));
  });
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  return { url: `http://127.0.0.1:${port}`, close: () => new Promise((resolve) => server.close(resolve)) };
}

/** Starts a key server beside a customer's app that was made with the recipe. */
export async function beside(file: 'express' | 'bun', env: Env = {}) {
  let keysUrl = '';
  const signIn = () => recipe(file, keysUrl);
  const customers = file === 'bun' ? withBun(signIn) : await withExpress(signIn);
  const app = await appForBrowser({ env: { ...env, KEYS_PAGE_SIGN_IN: `${customers.url}/keys-sign-in` } });
  keysUrl = app.url;
  return {
    app,
    customers,
    async [Symbol.asyncDispose]() {
      await Promise.all([app.close(), customers.close()]);
    },
  };
}
