// The preview page: the server's widgets with sample data, or the widget of one tool with the sample that it gives, light
// and dark, in sandboxed frames and a chat app that it plays.

import type { Tool } from '../../calls/tool.ts';
import { escaped, inlinePolicy, pagePolicy } from '../../ground/html.ts';
import { documentOf, withSetup } from '../document.ts';
import { createWidgets } from './index.ts';

export interface Preview {
  readonly html: string;
  readonly policy: string;
}

/** Creates the page with the server's widgets. `links` are tools whose own widgets can be seen, too. */
export function createPreview(lagMaxMs: number, links: readonly string[]): Preview {
  const widgets = createWidgets(lagMaxMs).flatMap(({ name, read }) => {
    const content = read();
    return 'text' in content ? [{ name, text: content.text }] : [];
  });
  const own = links.map((name) => `<a href="?tool=${encodeURIComponent(name)}">${escaped(name)}</a>`).join(' ');
  const said = `Sample data in the role of a chat app. Nothing here reaches a real key.${own && ` Your own: ${own}`}`;
  const html = pageOf(said, widgets.map(({ name, text }) => frame(name, text)).join('\n'));
  return { html, policy: pagePolicy([html, ...widgets.map(({ text }) => text)]) };
}

/** What chat apps let a widget do that asks for nothing; its frame inherits it (CSP3 §7.8). */
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

/**
 * Creates the page of one tool's widget. What the widget calls responds with the sample of that tool, one of `tools`. For
 * development alone: its policy lets everything inline run.
 */
export function createToolPreview({ name, sample }: Tool, text: string, tools: readonly Tool[]): Preview {
  const said = sample === undefined ? 'has no sample: give the tool one, and the widget shows it.' : 'with its sample.';
  const html = pageOf(`The widget of ${escaped(name)} ${said}`, markup(name, text));
  const results = tools.flatMap((tool) => (tool.sample === undefined ? [] : [[tool.name, sampleResult(tool)]]));
  return { html: withSetup(html, { results: Object.fromEntries(results) }), policy: AS_CHAT_APPS };
}

/** Returns the sample as the result of a call: a tool without an output returns content blocks. */
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

/**
 * Returns the markup of a frame with a policy of its own. Scripts can't make one: a page's policy lets no string become
 * markup.
 */
export function frame(name: string, text: string): string {
  const meta = `<meta http-equiv="Content-Security-Policy" content="${inlinePolicy([text])}">`;
  return markup(
    name,
    text.replace('<meta charset="utf-8">', (charset) => charset + meta),
  );
}

const markup = (name: string, text: string): string =>
  `<iframe name="${escaped(name)}" title="${escaped(name)}" class="card flush" sandbox="allow-scripts" allow="clipboard-write" srcdoc="${escaped(text)}"></iframe>`;
