// GET /: what this is, in plain text. It never touches the store, so a liveness probe may use it. Says which address the
// request came from, so that an operator sees whether TRUST_PROXY is right.

import { SECURITY_HEADERS } from '../http/headers.ts';
import type { Handler } from '../http/router.ts';
import { SERVER_NAME, SERVER_VERSION } from '../lib/server-info.ts';
import { metadataUrl } from './metadata.ts';

/** IPv4 or IPv6, by its characters. A proxy may have passed on anything. */
const IP_ADDRESS = /^[\da-f.:]{2,45}$/i;

const sseLine = (url: string) => `
  ${url}/sse               MCP, HTTP+SSE of 2024-11-05 (its messages go to /messages)`;

/** `hasSse`: whether /sse can be used. */
export function aboutRoute(publicUrl: () => string, hasSse: boolean): Handler {
  return (context) => {
    const url = publicUrl();
    const address = context.clientAddress();
    const text = `${SERVER_NAME}: MCP server, version ${SERVER_VERSION}

This is not a website. Connect to it with an MCP client.

  ${url}/mcp               MCP, Streamable HTTP${hasSse ? sseLine(url) : ''}
  ${url}/tools/<tool_name> the same tools over plain HTTP (POST, JSON)
  ${url}/openapi.json      their description
  ${url}/verify            whether an API key is good, for proxies
  ${url}/introspect        the same for services (OAuth token introspection)
  ${url}/revoke            ends a leaked API key (POST, token=<key>)
  ${url}/mcp/health        health
  ${url}/widgets/preview   preview of the widgets
  ${metadataUrl(url, '')}
                           where users sign in, if that is with an authorization server

Your address, as this server sees it: ${IP_ADDRESS.test(address) ? address : 'unknown'}
`;
    return new Response(text, {
      headers: { ...SECURITY_HEADERS, 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' },
    });
  };
}
