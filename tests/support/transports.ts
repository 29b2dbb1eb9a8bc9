// One way to call a tool for each transport, with responses that can be compared.

import { callOver } from './client.ts';
import { call, openSse, post } from './mcp.ts';
import type { Json } from './test-app.ts';

/** What came of a call. `refused`: the credential is no good; `later`: 503, or its equivalent in-band. */
export type Outcome =
  | { readonly kind: 'ok'; readonly output: Json }
  | { readonly kind: 'refused' }
  | { readonly kind: 'later' };

export type CallTool = (tool: string, input: object, headers: Record<string, string>) => Promise<Outcome>;

/** A response that no server in any state may give. */
export class WrongResponse extends Error {
  override name = 'WrongResponse';
}

const REFUSED = /^Invalid or expired API key$/;
const LATER = /out of reach; try again$|at its limit; try again$/;

function shed(headers: Headers): Outcome {
  if (!headers.has('retry-after')) throw new WrongResponse('503 without Retry-After');
  return { kind: 'later' };
}

function overRest(url: string): CallTool {
  return async (tool, input, headers) => {
    const response = await callOver(url, tool, input, headers);
    if (response.status === 200) return { kind: 'ok', output: response.body };
    if (response.status === 401) return { kind: 'refused' };
    if (response.status === 503) return shed(response.headers);
    throw new WrongResponse(`${tool} responded ${response.status} ${JSON.stringify(response.body)}`);
  };
}

function overMcp(url: string): CallTool {
  return async (tool, input, headers) => {
    const response = await post({ url }, call(tool, input), headers);
    if (response.status === 401) return { kind: 'refused' };
    if (response.status === 503) return shed(response.headers);
    if (response.status !== 200) throw new WrongResponse(`${tool} responded ${response.status} over /mcp`);
    return outcomeOf(tool, response.body);
  };
}

/**
 * On a stream of its own, opened at the first call. One call at a time. A credential that names nobody any more, as one
 * of a deleted key, finds no session: as a client would, it tries again on a new one.
 */
function overSse(url: string): CallTool {
  let session: ReturnType<typeof openSse> | undefined;
  let id = 0;
  async function post(message: object, headers: Record<string, string>) {
    session ??= openSse({ url });
    const open = await session;
    return { open, posted: await open.post(message, headers) };
  }
  return async (tool, input, headers) => {
    id += 1;
    const message = { ...call(tool, input), id };
    let { open, posted } = await post(message, headers);
    if (posted.status === 404) {
      await open.drop();
      session = undefined;
      ({ open, posted } = await post(message, headers));
    }
    if (posted.status === 401) return { kind: 'refused' };
    if (posted.status === 503) return shed(posted.headers);
    if (posted.status === 404) throw new Error('the stream ended');
    if (posted.status !== 202) throw new WrongResponse(`${tool} responded ${posted.status} over /messages`);
    const response = await open.nextMessage();
    if (response === undefined) throw new Error('the stream ended');
    if (response.id !== id) throw new WrongResponse(`call ${id} got the response ${JSON.stringify(response)}`);
    return outcomeOf(tool, response);
  };
}

/** A mix of all: the transport of the user with this number. */
export function transportOf(index: number, url: string): CallTool {
  const transports = [overRest, overMcp, overRest, overSse] as const;
  return (transports[index % transports.length] ?? overRest)(url);
}

function outcomeOf(tool: string, message: Json): Outcome {
  const { result } = message;
  if (result?.isError !== true && result?.structuredContent) return { kind: 'ok', output: result.structuredContent };
  const text = String(result?.content?.[0]?.text);
  if (REFUSED.test(text)) return { kind: 'refused' };
  if (LATER.test(text)) return { kind: 'later' };
  throw new WrongResponse(`${tool} responded ${JSON.stringify(message)}`);
}
