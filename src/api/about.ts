// GET /: describes the server in plain text, or with links for browsers. Reads no store, so it suits liveness probes.
// Shows the client's address, so that operators see whether TRUST_PROXY is right.

import { SERVER_NAME, SERVER_VERSION } from '../ground/server-info.ts';
import { keysPageUrl } from '../ground/urls.ts';
import { namesMediaType, SECURITY_HEADERS } from '../web/headers.ts';
import type { Handler } from '../web/router.ts';
import { metadataUrl } from './resource-metadata.ts';
import { ROUTES, type RouteFacts, type RouteName, routeNames } from './table.ts';

/** Characters of IPv4 and IPv6 addresses. A proxy may have passed on anything. */
const IP_ADDRESS = /^[\da-f.:]{2,45}$/i;

export function aboutRoute(isOn: (name: RouteName) => boolean): Handler {
  const listed = routeNames
    .filter(isOn)
    .map((name): RouteFacts => ROUTES[name])
    .filter(({ says }) => says !== undefined);
  const columns = Math.max(...listed.map(({ path }) => path.length));
  const linked = listed.flatMap(({ path, isLinked }) => (isLinked ? [path] : []));
  return async (context) => {
    const { publicUrl: url } = context;
    const address = context.clientAddress();
    const text = `${SERVER_NAME}: MCP server, version ${SERVER_VERSION}

This is not a website. Connect to it with an MCP client.${isOn('keys') ? ` People manage their keys at ${keysPageUrl(url)}` : ''}

${listed.map(({ path, says }) => `  ${url}${path.padEnd(columns)} ${says}\n`).join('')}  ${metadataUrl(url, '')}
                           where users sign in, if that is with an authorization server

Your address, as this server sees it: ${IP_ADDRESS.test(address) ? address : 'unknown'}
`;
    const headers = { ...SECURITY_HEADERS, 'Cache-Control': 'no-store', Vary: 'Accept' };
    if (!namesMediaType(context.headers.get('accept'), 'text/html')) {
      return new Response(text, { headers: { ...headers, 'Content-Type': 'text/plain; charset=utf-8' } });
    }
    const { html, policy } = await pageOf(
      text,
      linked.map((path) => url + path),
    );
    return new Response(html, {
      headers: { ...headers, 'Content-Type': 'text/html; charset=utf-8', 'Content-Security-Policy': policy },
    });
  };
}

const STYLE = `<style>:root{color-scheme:light dark}body{max-width:60rem;margin:2rem auto;padding:0 1rem}
h1,pre{margin:0 0 1lh;white-space:pre-wrap;overflow-wrap:anywhere;font:14px/1.6 ui-monospace,Menlo,Consolas,monospace}</style>`;

async function pageOf(text: string, links: readonly string[]) {
  const { escaped, inlineHashes } = await import('../ground/html.ts'); // loaded on first use, to keep the start fast
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
${STYLE}
</head>
<body>
<main><h1>${title}</h1>
<pre>${rest}</pre></main>
</body>
</html>
`;
  const policy = `default-src 'none'; style-src ${inlineHashes([STYLE], 'style')}; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
  return { html, policy };
}
