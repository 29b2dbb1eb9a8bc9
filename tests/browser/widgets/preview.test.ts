// The widgets as MCP resources, and the preview page that shows them.

import { expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { Glob } from 'bun';
import * as v from 'valibot';
import { defineTool } from '../../../src/calls/tool.ts';
import { ok } from '../../../src/ground/result.ts';
import { inlineAssets, minified, minifiedScript } from '../../../src/pages/inline.ts';
import { createWidgets } from '../../../src/pages/widgets/index.ts';
import type { ToolFile } from '../../../src/tools/folder/tool-file.ts';
import stockLevels, { resources } from '../../recipes/tools/stock-levels.ts';
import { confirm, describeInBrowser, takePage, untilReached } from '../../support/browser.ts';
import { startServer } from '../../support/server-process.ts';
import { createTestApp } from '../../support/test-app.ts';
import { anyone, facts } from '../../support/tools.ts';
import { rowOf, watch } from './preview-page.ts';

const FILE_BYTES_MAX = 20_000;

test('each file of the widgets is under 20 KB', async () => {
  const folder = `${import.meta.dir}/../../../src/pages/widgets`;
  const names = await Array.fromAsync(new Glob('*').scan(folder));
  expect(names.length).toBeGreaterThan(5);
  for (const name of names) {
    expect({ name, small: Bun.file(`${folder}/${name}`).size < FILE_BYTES_MAX }).toEqual({ name, small: true });
  }
});

test('the widgets are MCP Apps resources, complete in one text', async () => {
  const widgets = createWidgets(1000);
  expect(widgets.map(({ uri }) => uri)).toEqual(['ui://widget/api-key-created.html', 'ui://widget/api-keys-list.html']);
  for (const resource of widgets) {
    expect(resource.mimeType).toBe('text/html;profile=mcp-app');
    expect(resource.meta?.ui).toBeObject();
    const content = await resource.read();
    const html = 'text' in content ? content.text : '';
    expect(html).toStartWith('<!doctype html>');
    expect(html).toContain('ui/initialize');
    expect(html).not.toMatch(/<link|^import |^export |\bsrc=|https?:(?!\/\/www\.w3\.org\/2000\/svg)|innerHTML/m);
  }
});

test('a script that several import is put in once, before all that use it, and keeps its own names to itself', () => {
  const page = `<script type="module">
import { a } from './a.js';
import { b } from './b.js';
globalThis.seen = [a, b(1)];
</script>`;
  const parts = {
    'a.js': 'const own = 1;\nexport const a = own;\n',
    'b.js': "import { a } from './a.js';\nconst own = 2;\nexport function b(c) {\n  return c + a + own;\n}\n",
  };
  const script = inlineAssets(page, parts).replace(/<.*?>/g, '');
  expect(script.match(/const own/g)).toHaveLength(2);
  new Function(script)();
  expect(Reflect.get(globalThis, 'seen')).toEqual([1, 4]);
  expect(() => inlineAssets(page, { 'a.js': '' })).toThrow('a page needs b.js');
});

/** § stands for $. */
const CASES: readonly (readonly [what: string, script: string, left: string])[] = [
  ['comments and indentation', 'const a = 1; // one\n/* two\n*/ const b = 2;\n', 'const a=1,b=2;'],
  [
    'parentheses of an only parameter',
    'return (a) => f((b) => g((c, d) => b), async (e) => (a), ({ h }) => h, () => 1, (i = 1) => i);',
    'return a=>f(b=>g((c,d)=>b),async e=>(a),({h})=>h,()=>1,(i=1)=>i);',
  ],
  [
    'the word const after another constant',
    'const a = 1;\nconst { b } = c;\nfor (const d of e) f();\nconst g = (h) => {\n  const i = 1;\n  j();\n  const k = 2;\n};\nconst [l] = m;',
    'const a=1,{b}=c;for(const d of e)f();const g=h=>{const i=1;j();const k=2},[l]=m;',
  ],
  ['breaks behind a block, which ends without a semicolon', 'function f() {\n}\nfoo();', 'function f(){}foo();'],
  ['a comma behind the last of a list', 'f(\n  [\n    1,\n    [, 2],\n  ],\n  { a, },\n);', 'f([1,[,2]],{a});'],
  ['spaces between words', 'return typeof x === "y" ? in_ : of;', 'return typeof x==="y"?in_:of;'],
  ['signs that would be another one together', 'a + +b - -c + d;', 'a+ +b- -c+d;'],
  ['strings as they are', `'// no  comment' + "it's  /* none */";`, `'// no  comment'+"it's  /* none */";`],
  [
    'templates with holes in holes',
    '`a  // §{ b ? `c  §{ { d: 1 } } {` : "}" }  e`;',
    '`a  // §{b?`c  §{{d:1}} {`:"}"}  e`;',
  ],
  [
    'breaks beside tags and holes',
    'html`<p\n at="a">\na\n§{b}\n</p>\n§{c}\n§{d}`;',
    'html`<p\n at=a>a\n§{b}</p>§{c}§{d}`;',
  ],
  [
    'quotes of a word, and spaces before the end of an empty element',
    'html`<a b="c-1" d="e f" g=§{h} i="§{j}" k="" l="m" />"n" o="p"`;',
    'html`<a b=c-1 d="e f" g=§{h} i="§{j}" k="" l=m/>"n" o="p"`;',
  ],
  ['separators in numbers', 'a = 1_000.5 + b_1;', 'a=1000.5+b_1;'],
  [
    'the last semicolon of a block',
    'function f() {\n  b();\n  return `;§{c}`;\n}\n',
    'function f(){b();return`;§{c}`}',
  ],
  ['a $ in a template', '`$ $5  \\§{ x }  \\``;', '`$ $5  \\§{ x }  \\``;'],
  ['regular expressions', 'x.replace(/[/"\'] \\/ {/g, "");', 'x.replace(/[/"\'] \\/ {/g,"");'],
  ['divisions', 'a / b / c; (a) / 2 / d;', 'a/b/c;(a)/2/d;'],
];

test.each(CASES)('of the script of a page goes what means nothing: %s', (_, script, left) => {
  expect(minifiedScript(script.replaceAll('§', '$'))).toBe(left.replaceAll('§', '$'));
});

test('a script of a page that doesn’t end is an error', () => {
  expect(() => minifiedScript('const a = `b §{ c'.replace('§', '$'))).toThrow('end');
});

test('of the style sheet of a page stays what has a meaning', () => {
  const style =
    '<style>/* all */\n.a > :is(.b, .c) {\n  margin: 0 auto;\n  width: calc(6ch + 50px);\n}\n[b="c"] {\n  font: 13px / 1.5 d;\n}\n</style>';
  expect(minified(style)).toBe(
    '<style> .a>:is(.b,.c){margin:0 auto;width:calc(6ch + 50px)}[b=c]{font:13px/1.5 d}</style>',
  );
});

test('the preview page allows the scripts and styles it has, by hash, and nothing else', async () => {
  await using app = await createTestApp();
  const response = await fetch(`${app.url}/widgets/preview`);
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
  const frames = [...html.matchAll(/<iframe ([^>]*?) srcdoc=/g)];
  expect(frames).toHaveLength(2);
  for (const [, frame = ''] of frames) {
    expect(frame).toContain('sandbox="allow-scripts"'); // not allow-same-origin: that would undo the sandbox
  }
});

test('the preview page stands under the base path, responds to HEAD, refuses POST, and says when a tool has no widget', async () => {
  await using app = await createTestApp({ env: { BASE_PATH: '/keys' } });
  const url = `${app.url}/widgets/preview`;
  const head = await fetch(url, { method: 'HEAD' });
  expect([head.status, await head.text()]).toEqual([200, '']);
  const posted = await fetch(url, { method: 'POST' });
  expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  for (const [name, detail] of [
    ['whoami', 'This tool has no widget'],
    ['none', 'There is no tool of this name; /openapi.json lists all tools'],
  ]) {
    const response = await fetch(`${url}?tool=${name}`);
    expect(await response.json()).toMatchObject({ status: 404, code: 'tool_not_found', detail });
  }
});

test('the preview page is the same on Deno, and says how soon a key is refused, as configured; so is the policy of /keys', async () => {
  const env = { REVOCATION_LAG_MAX_MS: '2500' };
  await using app = await createTestApp({ env });
  await using deno = await startServer({ runtime: 'deno', env });
  const [onBun, onDeno] = await Promise.all(
    [app, deno].map(async ({ url }) => {
      const response = await fetch(`${url}/widgets/preview`);
      return [response.status, response.headers.get('content-security-policy'), await response.text()];
    }),
  );
  expect(onDeno).toEqual(onBun ?? []);
  expect(onBun?.[2]).toContain('refused at once, elsewhere within 2.5 seconds');
  const policyOf = async (url: string) => (await fetch(`${url}/keys`)).headers.get('content-security-policy');
  expect(await policyOf(deno.url)).toBe((await policyOf(app.url)) ?? 'none');
});

describeInBrowser('the preview of a tool', (browser) => {
  test('shows its widget with its sample, light and dark, in development alone, and a link to it', async () => {
    const toolFiles = [{ file: 'stock-levels.ts', make: stockLevels, resources }];
    await using app = await createTestApp({ toolFiles });
    await using taken = await takePage(browser());
    const { page } = taken;
    await page.goto(`${app.url}/widgets/preview`);
    await page.getByRole('link', { name: 'stock_levels' }).click();
    for (const theme of ['light', 'dark']) {
      const widget = page.frameLocator(`iframe[title="stock_levels, ${theme}"]`);
      await widget.getByText('cups: 12').waitFor();
      expect(await widget.locator('html').evaluate((root) => root.style.colorScheme)).toBe(theme);
      await widget.getByRole('button', { name: 'Look again' }).click();
      await widget.getByText('plates: 80').waitFor();
    }
    await using production = await createTestApp({ toolFiles, env: { NODE_ENV: 'production' } });
    expect((await fetch(`${production.url}/widgets/preview?tool=stock_levels`)).status).toBe(404);
    const preview = await fetch(`${production.url}/widgets/preview`);
    expect([preview.status, (await preview.text()).includes('stock_levels')]).toEqual([200, false]);
  });
});

const CALLER = 'ui://widget/caller.html';

/** Shows what each call of a tool responds. */
const CALLING = `<!doctype html>
<meta charset="utf-8">
<script type="module">
  const post = (message) => parent.postMessage({ jsonrpc: '2.0', ...message }, '*');
  const show = (name, result) => document.body.append(name + ': ' + JSON.stringify(result), document.createElement('br'));
  const names = ['counted', 'written', 'bare'];
  addEventListener('message', ({ data: { id, method, params, result } }) => {
    if (id === 0) post({ method: 'ui/notifications/initialized', params: {} });
    else if (method === 'ui/notifications/tool-result') show('shown', params);
    else if (id !== undefined) show(names[id - 1], result);
  });
  post({ id: 0, method: 'ui/initialize', params: {} });
  for (const [index, name] of names.entries()) post({ id: index + 1, method: 'tools/call', params: { name } });
</script>
`;

const WITH_CALLER: ToolFile = {
  file: 'caller.ts',
  make() {
    const input = v.strictObject({});
    const output = v.strictObject({ count: v.number() });
    const count = () => ok({ count: 2 });
    const written = { content: [{ type: 'text' as const, text: 'two' }] };
    const write = () => ok(written);
    return [
      defineTool(anyone, { ...facts('bare'), input, widget: CALLER, output, run: count }),
      defineTool(anyone, { ...facts('counted'), input, sample: { count: 2 }, output, run: count }),
      defineTool(anyone, { ...facts('written'), input, sample: written, run: write }),
      defineTool(anyone, { ...facts('whole'), input, widget: CALLER, sample: written, run: write }),
    ];
  },
  resources: [
    {
      uri: CALLER,
      name: 'caller',
      title: '',
      description: '',
      mimeType: 'text/html;profile=mcp-app',
      read: () => ({ text: CALLING }),
    },
  ],
};

test('the preview page links to tools with a widget and a sample, and to no other', async () => {
  await using app = await createTestApp({ toolFiles: [WITH_CALLER] });
  const html = await (await fetch(`${app.url}/widgets/preview`)).text();
  expect(html.match(/href="\?tool=[^"]*"/g)).toEqual(['href="?tool=whole"']);
});

describeInBrowser('the preview of a tool whose widget calls others', (browser) => {
  test('responds with the sample of the tool that is called, or says that it has none', async () => {
    await using app = await createTestApp({ toolFiles: [WITH_CALLER] });
    await using taken = await takePage(browser());
    const { page } = taken;
    await page.goto(`${app.url}/widgets/preview?tool=bare`);
    const none = '{"content":[{"type":"text","text":"bare has no sample"}],"isError":true}';
    for (const line of [
      'counted: {"structuredContent":{"count":2}}',
      'written: {"content":[{"type":"text","text":"two"}]}',
      `bare: ${none}`,
      `shown: ${none}`,
    ]) {
      await page.frameLocator('iframe[title="bare, light"]').getByText(line).waitFor();
    }
  });
});

describeInBrowser('the preview page', (browser) => {
  test('shows both widgets, light and dark, and responds to what is done there', async () => {
    await using app = await createTestApp();
    await using taken = await takePage(browser());
    const { page } = taken;
    const url = `${app.url}/widgets/preview`;
    const misdeeds = watch(page, url);
    await page.goto(url);
    for (const theme of ['light', 'dark']) {
      const list = page.frameLocator(`iframe[title="api-keys-list, ${theme}"]`);
      await rowOf(list, 'CI pipeline').waitFor();
      expect(await list.locator('html').getAttribute('data-theme')).toBe(theme);
      const created = page.frameLocator(`iframe[title="api-key-created, ${theme}"]`);
      await created.getByRole('heading', { name: 'billing export' }).waitFor();
    }
    const list = page.frameLocator('iframe[title="api-keys-list, dark"]');
    const rotate = list.getByRole('button', { name: 'Rotate CI pipeline' });
    await untilReached(page, rotate); // the frames above have become smaller
    await rotate.click();
    await list.getByRole('group', { name: 'Rotate CI pipeline?' }).getByRole('button', { name: 'Rotate' }).click();
    await list.getByRole('group', { name: 'New key of CI pipeline' }).waitFor();
    await confirm(list, 'Delete', 'old laptop');
    await list.getByText('5 keys', { exact: true }).waitFor();
    await page.frameLocator('iframe[title="api-keys-list, light"]').getByText('6 keys', { exact: true }).waitFor();
    expect(misdeeds).toEqual([]);
  });

  test('has samples of the shape of the real results', async () => {
    await using app = await createTestApp();
    const authorization = { authorization: `Bearer ${await app.token('alice')}` };
    const { body: created } = await app.call(
      'create_api_key',
      { name: 'n', scopes: ['read'], expiresInDays: 1 },
      authorization,
    );
    await app.useKey(created.key);
    const { body: listed } = await app.call('list_api_keys', {}, authorization);
    const path = `${import.meta.dir}/../../../src/pages/widgets/samples.js`;
    const { samplesAt } = await import(path);
    const samples = samplesAt(Date.now());
    const missing = (sample: object, real: object) => Object.keys(sample).filter((name) => !(name in real));
    expect(missing(samples['api-key-created'], created)).toEqual([]);
    expect(samples['api-key-created'].warning).toBe(created.warning);
    const used = samples['api-keys-list'].keys[1];
    expect(missing(used, listed.keys[0])).toEqual([]);
  });
});
