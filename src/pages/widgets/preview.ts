// The preview page: both widgets with sample data, in sandboxed frames.

import { escaped, inlinePolicy, pagePolicy } from '../../ground/html.ts';
import { inlineAssets } from '../../ground/inline.ts';
import { createWidgets } from './index.ts';
import pageStyle from './page.css' with { type: 'text' };
import html from './preview.html' with { type: 'text' };
import js from './preview-host.js' with { type: 'text' };
import samples from './samples.js' with { type: 'text' };
import style from './style.css' with { type: 'text' };

export function createPreview(lagMaxMs: number): { readonly html: string; readonly policy: string } {
  const page = inlineAssets(html, {
    'page.css': pageStyle,
    'preview-host.js': js,
    'samples.js': samples,
    'style.css': style,
  });
  const widgets = createWidgets(lagMaxMs).flatMap(({ name, read }) => {
    const content = read();
    return 'text' in content ? [{ name, text: content.text }] : [];
  });
  const frames = widgets.map(({ name, text }) => frame(name, text));
  return {
    html: page.replace('{frames}', () => frames.join('\n')),
    policy: pagePolicy([page, ...widgets.map(({ text }) => text)]),
  };
}

/** The markup of a frame with a policy of its own. Scripts can't make one: a page's policy lets no string become markup. */
export function frame(name: string, text: string): string {
  const meta = `<meta http-equiv="Content-Security-Policy" content="${inlinePolicy([text])}">`;
  const page = escaped(text.replace('<meta charset="utf-8">', (charset) => charset + meta));
  return `<iframe name="${name}" title="${name}" sandbox="allow-scripts" allow="clipboard-write" srcdoc="${page}"></iframe>`;
}
