// Widgets in sandboxed frames of pages of this server. A frame made of `srcdoc` inherits the page's
// Content-Security-Policy (CSP3 §7.8), so that names the widget's inline scripts and styles by hash as well; each frame
// narrows it to its own. Nothing else runs inline, and nothing loads.

import { inlineHashes } from '../lib/html.ts';
import { widgetResources } from './index.ts';

/** The widget as a frame has it: with a policy of its own. */
export function framedWidget(name: string): string {
  const content = widgetResources.find((resource) => resource.name === name)?.read();
  if (content === undefined || !('text' in content)) throw new Error(`no widget ${name}`);
  const meta = `<meta http-equiv="Content-Security-Policy" content="${inlinePolicy([content.text])}">`;
  return content.text.replace('<meta charset="utf-8">', (charset) => charset + meta);
}

/** The markup of a frame. No script can make one: a page's policy lets no string become markup. */
export const frame = (name: string, title: string, page: string) =>
  `<iframe name="${name}" title="${title}" sandbox="allow-scripts" allow="clipboard-write" srcdoc="${attribute(page)}"></iframe>`;

const attribute = (text: string) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;');

/** The policy of a page, given without what it frames, beside that; `more` are directives of its own. */
export const contentPolicy = (pages: readonly string[], ...more: readonly string[]): string =>
  [
    inlinePolicy(pages),
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'", // no string becomes markup or code, here and in the frames
    "trusted-types 'none'",
    ...more,
  ].join('; ');

function inlinePolicy(pages: readonly string[]): string {
  const sources = `script-src ${inlineHashes(pages, 'script')}; style-src ${inlineHashes(pages, 'style')}`;
  return `default-src 'none'; ${sources}; img-src data:; base-uri 'none'`;
}
