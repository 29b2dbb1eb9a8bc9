// The widgets as MCP resources, and the preview page that shows them.

import { expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { Glob } from 'bun';
import { inlineAssets } from '../../../src/lib/inline.ts';
import { widgetResources } from '../../../src/widgets/index.ts';
import { postModern, WITH_WIDGETS } from '../../support/mcp.ts';
import { startServer } from '../../support/server-process.ts';
import { createTestApp } from '../../support/test-app.ts';

const FILE_BYTES_MAX = 20_000;

test('each file of the widgets is under 20 KB', async () => {
  const folder = `${import.meta.dir}/../../../src/widgets`;
  for await (const name of new Glob('*').scan(folder)) {
    expect({ name, small: Bun.file(`${folder}/${name}`).size < FILE_BYTES_MAX }).toEqual({ name, small: true });
  }
});

test('the widgets are MCP Apps resources, complete in one text', () => {
  expect(widgetResources.slice(0, 2).map(({ uri }) => uri)).toEqual([
    'ui://widget/api-key-created.html',
    'ui://widget/api-keys-list.html',
  ]);
  for (const resource of widgetResources) {
    expect(resource.mimeType).toBe('text/html;profile=mcp-app');
    expect(resource.meta?.ui).toBeObject();
    const content = resource.read();
    const html = 'text' in content ? content.text : '';
    expect(html).toStartWith('<!doctype html>');
    expect(html).toContain('ui/initialize');
    expect(html).not.toMatch(/<link|^import |^export |\bsrc=|https?:(?!\/\/www\.w3\.org\/2000\/svg)|innerHTML/m);
  }
});

test('a script that several import is put in once, before all that use it', () => {
  const page = "import { a } from './a.js';\nimport { b } from './b.js';\nb(a);\n";
  const parts = {
    'a.js': 'export const a = 1;\n',
    'b.js': "import { a } from './a.js';\nexport const b = (c) => c + a;\n",
  };
  expect(inlineAssets(page, parts)).toBe('const a = 1;\nconst b = (c) => c + a;\nb(a);\n');
  expect(() => inlineAssets(page, { 'a.js': '' })).toThrow('a page needs b.js');
});

test('the preview page allows the scripts and styles it has, by hash, and nothing else', async () => {
  await using app = await createTestApp();
  const response = await fetch(`${app.url}/widgets/preview?data=hostile`);
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
  expect(response.headers.get('x-content-type-options')).toBe('nosniff');
  expect(response.headers.get('referrer-policy')).toBe('no-referrer');
  expect(response.headers.get('x-frame-options')).toBe('DENY');
  const policy = response.headers.get('content-security-policy') ?? '';
  expect(policy).toStartWith("default-src 'none'; script-src 'sha256-");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toMatch(/unsafe|\*|https?:|connect-src|frame-src/);
  const html = await response.text();
  const [, script = ''] = /<script type="module">(.*?)<\/script>\n<\/body>/s.exec(html) ?? [];
  expect(policy).toContain(createHash('sha256').update(script).digest('base64'));
  for (const [, frame = ''] of html.matchAll(/<iframe ([^>]*?) srcdoc=/g)) {
    expect(frame).toContain('sandbox="allow-scripts"'); // not allow-same-origin: that would undo the sandbox
  }
});

test('?widget= selects one', async () => {
  await using app = await createTestApp();
  const html = await (await fetch(`${app.url}/widgets/preview?widget=api-keys-list`)).text();
  expect(html.match(/<iframe name="[^"]+"/g)).toEqual(['<iframe name="api-keys-list"']);
});

test.each([
  ['widget', 'api-keys-lists', 'both, api-key-created, api-keys-list'],
  ['theme', 'Dark', 'system, light, dark, sepia'],
  ['theme', '', 'system, light, dark, sepia'],
  ['width', '321', 'auto, 320, 480, 720'],
  ['data', '<script>', 'few, empty, 1000, hostile, error, widget, encrypted, rotated, leaked'],
  ['calls', 'constructor', 'work, fail, silent, off'],
])('?%s=%s is 400 with the choices, without what was sent', async (param, value, choices) => {
  await using app = await createTestApp();
  const response = await fetch(`${app.url}/widgets/preview?${param}=${encodeURIComponent(value)}`);
  expect(response.status).toBe(400);
  expect(response.headers.get('content-type')).toBe('application/problem+json');
  const text = await response.text();
  expect(JSON.parse(text)).toMatchObject({
    code: 'invalid_input',
    issues: [{ path: param, message: `Expected one of: ${choices}` }],
  });
  if (value !== '') expect(text).not.toContain(value);
});

test('the preview page stands under the base path, responds to HEAD, and refuses POST', async () => {
  await using app = await createTestApp({ env: { BASE_PATH: '/keys' } });
  const head = await fetch(`${app.url}/widgets/preview`, { method: 'HEAD' });
  expect([head.status, await head.text()]).toEqual([200, '']);
  const posted = await fetch(`${app.url}/widgets/preview`, { method: 'POST' });
  expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
});

test('the preview page is the same at any time, however it is shown: all who read it share its bytes', async () => {
  await using app = await createTestApp();
  const pageOf = async (query: string) => (await fetch(`${app.url}/widgets/preview?data=1000&${query}`)).text();
  const page = await pageOf('');
  app.clock.advance(3_600_000);
  for (const query of ['theme=dark', 'width=320', 'calls=off']) expect(await pageOf(query)).toBe(page);
});

test('the preview page is the same on Deno', async () => {
  await using app = await createTestApp();
  await using deno = await startServer({ runtime: 'deno' });
  const [onBun, onDeno] = await Promise.all(
    [app, deno].map(async ({ url }) => {
      const response = await fetch(`${url}/widgets/preview?data=empty&widget=api-keys-list`);
      return [response.status, response.headers.get('content-security-policy'), await response.text()];
    }),
  );
  expect(onDeno).toEqual(onBun ?? []);
});

test('the samples have the shape of the real results', async () => {
  await using app = await createTestApp();
  const authorization = { authorization: `Bearer ${await app.token('alice')}` };
  const input = { name: 'n', scopes: ['read'], expiresInDays: 1 };
  const { body: created } = await app.call('create_api_key', input, authorization);
  await app.useKey(created.key);
  const { body: listed } = await app.call('list_api_keys', {}, authorization);
  const html = await (await fetch(`${app.url}/widgets/preview`)).text();
  const { samples } = JSON.parse(/id="setup">(.*?)<\/script>/s.exec(html)?.[1] ?? '');
  const sample = samples['api-key-created'].result;
  expect(Object.keys(sample.structuredContent)).toEqual(Object.keys(created));
  expect(sample.structuredContent.warning).toBe(created.warning);
  expect(JSON.parse(sample.content[0].text)).toEqual(sample.structuredContent);
  const others = await Promise.all(
    ['encrypted', 'widget', 'rotated', 'leaked'].map(async (data) => {
      const html = await (await fetch(`${app.url}/widgets/preview?data=${data}`)).text();
      return JSON.parse(/id="setup">(.*?)<\/script>/s.exec(html)?.[1] ?? '').samples['api-key-created'];
    }),
  );
  const [encrypted, forWidget, rotated, leaked] = others;
  for (const { input, result } of [rotated, leaked]) {
    const { body } = await app.call('rotate_api_key', { ...input, keyId: created.id }, authorization);
    expect(Object.keys(result.structuredContent)).toEqual(Object.keys(body));
    expect(result.structuredContent.previous).toEqual(body.previous);
  }
  const { body: real } = await app.call('create_api_key', { ...input, ...encrypted.input }, authorization);
  expect(Object.keys(encrypted.result.structuredContent)).toEqual(Object.keys(real));
  await using widgetApp = await createTestApp({ env: { KEY_REVEAL: 'widget' } });
  const params = { name: 'create_api_key', arguments: input };
  const headers = { authorization: `Bearer ${await widgetApp.token('alice')}` };
  const { body: response } = await postModern(widgetApp, 'tools/call', params, { headers, meta: WITH_WIDGETS });
  expect(Object.keys(forWidget.result.structuredContent)).toEqual(Object.keys(response.result.structuredContent));
  expect(forWidget.result.structuredContent.warning).toBe(response.result.structuredContent.warning);
  const [sent, shown] = [response, forWidget].map(({ result }) => result._meta['mcp-key-server/widget']);
  expect(Object.keys(shown)).toEqual(Object.keys(sent));
  const used = samples['api-keys-list'].result.structuredContent.keys.find((key: object) => 'lastUsedAt' in key);
  expect(Object.keys(used)).toEqual(Object.keys(listed.keys[0]));
});
