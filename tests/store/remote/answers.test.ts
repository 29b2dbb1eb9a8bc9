// What a remote primary answers: an answer that isn't one is an outage, never a wrong credential or a bug.

import { expect, setDefaultTimeout, test } from 'bun:test';
import type { Sqld } from '../../support/sqld.ts';
import { storeOn } from '../../support/store-mode.ts';
import { startPrimary } from '../../support/template.ts';
import { bearer, createTestApp } from '../../support/test-app.ts';

setDefaultTimeout(180_000);

interface Result {
  cols: { name: string }[];
  rows: unknown[];
}

/** What becomes of the results of a response that is good. */
const changed = (change: (result: Result) => void) => (text: string) => {
  const body = JSON.parse(text) as { results: { response?: { result?: Result } }[] };
  for (const { response } of body.results) if (response?.result?.cols) change(response.result);
  return JSON.stringify(body);
};

interface Cell {
  readonly type: string;
  readonly value?: string;
}

const each = (of: (cell: Cell) => Cell) =>
  changed((result) => Object.assign(result, { rows: result.rows.map((row) => (row as Cell[]).map(of)) }));

/** Another place, where its answers are as they should be. */
const ELSEWHERE = '/elsewhere';

type Answer = (text: string) => string | Response;

const ANSWERS: Record<string, Answer> = {
  'no rows': changed((result) => Object.assign(result, { rows: [] })),
  'neither rows nor columns': changed((result) => Object.assign(result, { rows: [], cols: [] })),
  'columns of other names': changed(({ cols }) => {
    for (const [at, col] of cols.entries()) col.name = `c${at}`;
  }),
  'fewer columns': changed((result) => Object.assign(result, { cols: [] })),
  'nothing in each column': each(() => ({ type: 'null' })),
  'other text in each column': each(() => ({ type: 'text', value: 'x' })),
  'other numbers in each column': each(() => ({ type: 'integer', value: '7' })),
  'text for numbers': each((cell) => (cell.type === 'integer' ? { ...cell, type: 'text' } : cell)),
  'a statement broken off': () =>
    '{"results":[{"type":"error","error":{"message":"interrupted","code":"SQLITE_INTERRUPT"}},{"type":"ok","response":{"type":"close"}}]}',
  'no results': () => '{"results":[]}',
  'an empty object': () => '{}',
  'an empty body': () => '',
  'half of it': (text) => text.slice(0, text.length / 2),
  'a page': () => '<h1>Welcome</h1>',
  // What a proxy says to plain HTTP at its port for HTTPS.
  'a page that says 400': () => new Response('<h1>400 Bad Request</h1>', { status: 400 }),
  // What a balancer says while nothing is behind it, and to who asks too much.
  'a page that says 502': () => new Response('<h1>502 Bad Gateway</h1>', { status: 502 }),
  'a page that says 429': () => new Response('<h1>429 Too Many Requests</h1>', { status: 429 }),
  'a redirect': () => new Response(null, { status: 307, headers: { location: `${ELSEWHERE}/v2/pipeline` } }),
};

/** In front of a primary, whose answers are changed from `turn` on. */
function startAnswering({ url }: Sqld) {
  let answer: Answer | null = null;
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const [, elsewhere, pathname = ''] = new RegExp(`^(${ELSEWHERE})?(.*)`).exec(new URL(request.url).pathname) ?? [];
      const body = await request.text();
      const response = await fetch(url + pathname, { method: request.method, headers: request.headers, body });
      const text = await response.text();
      const said = (elsewhere === undefined ? answer?.(text) : null) ?? text;
      return said instanceof Response ? said : new Response(said, { status: response.status });
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    turn: (to: typeof answer) => (answer = to),
    [Symbol.dispose]: () => void server.stop(true),
  };
}

test.each(Object.entries(ANSWERS))('a primary that answers with %s is out of reach', async (_, answer) => {
  await using sqld = await startPrimary();
  using primary = startAnswering(sqld);
  await using app = await createTestApp({ store: storeOn({ ...sqld.env, DATABASE_URL: primary.url }) });
  const [{ key }, unseen] = [await app.createKey('alice'), await app.createKey('alice')];
  expect((await app.useKey(key)).status).toBe(200);
  primary.turn(answer);
  app.clock.advance(1001);
  const alice = await bearer(app, 'alice');
  const revoke = new URLSearchParams({ token: unseen.key });
  const statuses = [
    (await app.useKey(key)).status,
    (await app.useKey(unseen.key)).status,
    (await app.call('rotate_api_key', { keyId: unseen.id }, alice)).status,
    (await fetch(`${app.url}/revoke`, { method: 'POST', body: revoke })).status,
    (await fetch(`${app.url}/mcp/health`)).status,
  ];
  expect(statuses).toEqual([503, 503, 503, 503, 503]);
  primary.turn(null);
  app.clock.advance(1001);
  expect((await app.useKey(key)).status).toBe(200);
});
