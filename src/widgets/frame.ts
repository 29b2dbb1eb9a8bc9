// Widgets in sandboxed frames of pages of this server. A frame made of `srcdoc` inherits the page's
// Content-Security-Policy (CSP3 §7.8), so that policy lists the hashes of the widget's inline scripts and styles too;
// each frame narrows it to its own. Nothing else runs inline, and nothing loads.

import { inlineHashes } from '../lib/html.ts';
import { widgetResources } from './index.ts';

/** The widget with a policy of its own, for a frame. */
export function framedWidget(name: string): string {
  const content = widgetResources.find((resource) => resource.name === name)?.read();
  if (content === undefined || !('text' in content)) throw new Error(`no widget ${name}`);
  const meta = `<meta http-equiv="Content-Security-Policy" content="${inlinePolicy([content.text])}">`;
  return content.text.replace('<meta charset="utf-8">', (charset) => charset + meta);
}

/** The markup of a frame. Scripts can't make one: a page's policy lets no string become markup. */
export const frame = (name: string, title: string, page: string) =>
  `<iframe name="${name}" title="${title}" sandbox="allow-scripts" allow="clipboard-write" srcdoc="${attribute(page)}"></iframe>`;

const attribute = (text: string) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;');

/** The policy of a page and the widgets it frames, passed without their frames; `more`: further directives. */
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
