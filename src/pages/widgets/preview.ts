// GET /widgets/preview: serves the server's widgets with sample data, or one tool's widget with the tool's sample, light and
// dark, in sandboxed frames of a simulated chat app. They call no tools.

import type { Resource } from '../../calls/content.ts';
import type { Tool } from '../../calls/tool.ts';
import { once } from '../../ground/cache.ts';
import { escaped, inlinePolicy, pagePolicy } from '../../ground/html.ts';
import { PAGE_HEADERS } from '../../web/headers.ts';
import { problemResponse } from '../../web/problem-response.ts';
import { type Handler, queryOf } from '../../web/router.ts';
import { documentOf, withSetup } from '../document.ts';
import { createWidgets } from './index.ts';

interface PreviewOptions {
  readonly production: boolean;
  readonly revocationLagMaxMs: number;
  readonly tools: readonly Tool[];
  readonly resources: readonly Resource[];
}

/** Creates the route of the previews. In development `?tool=<name>` shows the widget of your own tool. */
export function previewRoute({ production, revocationLagMaxMs, tools, resources }: PreviewOptions): Handler {
  const links = production ? [] : tools.filter(hasPreview).map(({ name }) => name);
  const whole = once(async () => shown(await createPreview(revocationLagMaxMs, links)));
  return async ({ request, requestId }) => {
    const wanted = queryOf(request.url).get('tool');
    if (wanted === null) return (await whole())();
    if (production) return problemResponse({ code: 'not_found' }, requestId);
    const tool = tools.find(({ name }) => name === wanted);
    if (tool === undefined) return problemResponse({ code: 'tool_not_found' }, requestId);
    const content = await resources.find(({ uri }) => uri === tool.widget)?.read();
    if (content === undefined || !('text' in content)) {
      return problemResponse({ code: 'tool_not_found', lacksWidget: true }, requestId);
    }
    return shown(createToolPreview(tool, content.text, tools))();
  };
}

/** Returns whether a tool's widget has something to show. A sample without a widget is for the widgets of other tools. */
const hasPreview = ({ widget, sample }: Tool): boolean => widget !== undefined && sample !== undefined;

/** Returns a function that creates responses with the page. They share its bytes. */
function shown({ html, policy }: { readonly html: string; readonly policy: string }): () => Response {
  const [page, headers] = [new Blob([html]), { ...PAGE_HEADERS, 'Content-Security-Policy': policy }];
  return () => new Response(page, { headers });
}

/** Creates the page with the server's widgets and its policy. It links to the widgets of the tools in `links`. */
async function createPreview(lagMaxMs: number, links: readonly string[]) {
  const contents = await Promise.all(
    createWidgets(lagMaxMs).map(async ({ name, read }) => ({ name, ...(await read()) })),
  );
  const widgets = contents.flatMap((content) => ('text' in content ? [content] : []));
  const own = links.map((name) => `<a href="?tool=${encodeURIComponent(name)}">${escaped(name)}</a>`).join(' ');
  const said = `Sample data in the role of a chat app. Nothing here reaches a real key.${own && ` Your own: ${own}`}`;
  const html = pageOf(said, widgets.map(({ name, text }) => frame(name, text)).join('\n'));
  return { html, policy: pagePolicy([html, ...widgets.map(({ text }) => text)]) };
}

/** The policy that chat apps give a widget without special requests. Its frame inherits it (CSP3 §7.8). */
const AS_CHAT_APPS = [
  "default-src 'none'",
  "script-src 'unsafe-inline'",
  "style-src 'unsafe-inline'",
  'img-src data:',
  'media-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Creates the page of one tool's widget, with the samples of `tools`. For development: the policy lets all scripts run. */
function createToolPreview({ name, sample }: Tool, text: string, tools: readonly Tool[]) {
  const said = sample === undefined ? 'has no sample: give the tool one, and the widget shows it.' : 'with its sample.';
  const html = pageOf(`The widget of ${escaped(name)} ${said}`, markup(name, text));
  const results = tools.flatMap((tool) => (tool.sample === undefined ? [] : [[tool.name, sampleResult(tool)]]));
  return { html: withSetup(html, { results: Object.fromEntries(results) }), policy: AS_CHAT_APPS };
}

/** Returns the sample as the result of a call. A tool without an output schema returns content blocks. */
const sampleResult = ({ sample, outputSchema }: Tool) => (outputSchema ? { structuredContent: sample } : sample);

const pageOf = (said: string, frames: string): string =>
  documentOf({
    title: 'Widget preview',
    script: 'preview-host.js',
    isPage: true,
    body: `<div class="stack">
<header>
<h1>Widget preview</h1>
<p>${said}</p>
</header>
<main class="stack"></main>
<template><section class="line">${frames}</section></template>
</div>`,
  });

/** Returns the markup of a frame with its own policy. The page's policy keeps scripts from creating one. */
export function frame(name: string, text: string): string {
  const meta = `<meta http-equiv="Content-Security-Policy" content="${inlinePolicy([text])}">`;
  return markup(
    name,
    text.replace('<meta charset="utf-8">', (charset) => charset + meta),
  );
}

const markup = (name: string, text: string): string =>
  `<iframe name="${escaped(name)}" title="${escaped(name)}" class="card flush" sandbox="allow-scripts" allow="clipboard-write" srcdoc="${escaped(text)}"></iframe>`;
