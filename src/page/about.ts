// The text of GET / as a page: the same, with links.

import { createHash } from 'node:crypto';
import { escaped } from '../lib/html.ts';
import { SERVER_NAME } from '../lib/server-info.ts';

const STYLE = `:root{color-scheme:light dark}body{max-width:60rem;margin:2rem auto;padding:0 1rem}
h1,pre{margin:0 0 1lh;white-space:pre-wrap;overflow-wrap:anywhere;font:14px/1.6 ui-monospace,Menlo,Consolas,monospace}`;

const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** `links`: the URLs in `text` that lead somewhere. */
export function aboutPage(text: string, links: readonly string[]): { readonly html: string; readonly policy: string } {
  const linked = escaped(text).replace(/https?:\/\/[^\s&]+/g, (url) =>
    links.includes(url) ? `<a href="${url}">${url}</a>` : url,
  );
  const [, title, rest] = /^(.*?)\n(.*)$/s.exec(linked) ?? [];
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${SERVER_NAME}</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<main><h1>${title}</h1>
<pre>${rest}</pre></main>
</body>
</html>
`;
  return { html, policy: POLICY };
}
