// Reads what clients can do, and asks those of 2026-07-28 for more input. Between two rounds of a call the client
// carries all state as requestState (basic/patterns/mrtr), so the server keeps nothing and any process can handle the
// next round.

import type { Asking, InputRequired } from '../calls/ask.ts';
import { WIDGET_TYPE } from '../calls/content.ts';
import { atFirstUse } from '../ground/first-use.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Signing } from '../ground/signed-text.ts';
import { escapedControls, isObject, type JsonObject, jsonOf } from '../ground/text.ts';
import { excerptOf, redact } from '../watch/redact.ts';
import type { Params } from './message.ts';
import type { RequestStates } from './request-states.ts';

/** The most bytes of responses in requestState. In base64 they fit into a body, beside those of the last round. */
const RESPONSES_BYTES_MAX = 256 * 1024;

const NO_RESPONSES: JsonObject = {};

export function askingOf(
  states: RequestStates,
  { inputResponses = NO_RESPONSES, requestState }: Params,
  clientCapabilities: JsonObject,
): Result<Asking, string> {
  if (!isObject(inputResponses)) return err('inputResponses must be an object');
  if (requestState !== undefined && typeof requestState !== 'string') return err('requestState must be a string');
  return ok(new ClientAsking(states, clientCapabilities, inputResponses, requestState));
}

/** Asks the client of one call. A class, because every call of 2026-07-28 creates one and closures would cost more. */
class ClientAsking implements Asking {
  #responses: JsonObject;
  #stated: JsonObject = NO_RESPONSES;

  constructor(
    readonly states: RequestStates,
    readonly clientCapabilities: JsonObject,
    responses: JsonObject,
    readonly requestState: string | undefined,
  ) {
    this.#responses = responses;
  }

  get canAsk(): boolean {
    return missingCapabilities(FORMS, this.clientCapabilities) === undefined;
  }

  responseTo(name: string): unknown {
    return Object.hasOwn(this.#responses, name) ? this.#responses[name] : undefined;
  }

  addToRequestState(name: string, response: unknown): void {
    this.#stated = { ...this.#stated, [name]: response };
  }

  async readRequestState(requestState: string, subject: string): Promise<Problem | undefined> {
    const opened = await this.states.open(subject, requestState);
    if (!opened.ok) return opened.error;
    this.#responses = { ...this.#responses, ...opened.value };
    return undefined;
  }

  async inputRequiredResult(subject: string, requests: InputRequired['requests']): Promise<Result<string, Problem>> {
    if (new TextEncoder().encode(JSON.stringify(this.#stated)).length > RESPONSES_BYTES_MAX) return TOO_LARGE;
    const state = await this.states.seal(subject, this.#stated);
    return ok(`"inputRequests":${jsonOf(requests)},"requestState":"${state}"`);
  }
}

const TOO_LARGE = err<Problem>({
  code: 'invalid_response',
  issues: [{ path: '', message: `Expected at most ${RESPONSES_BYTES_MAX} bytes in all responses to this call` }],
});

/** The capability of clients that show forms. */
const FORMS: JsonObject = { elicitation: { form: {} } };

/** Returns what seals and opens states, which is loaded with the first one. */
export function openRequestStates(signing: Signing, clock: Clock): RequestStates {
  const lazily = atFirstUse('mcp', import.meta.url);
  const load = lazily(async () => {
    const { createRequestStates } = await import('./request-states.ts');
    return createRequestStates(signing, clock);
  });
  return {
    seal: async (...given) => (await load()).seal(...given),
    open: async (...given) => (await load()).open(...given),
  };
}

/** Optional in each request (2026-07-28). */
const META_CLIENT = 'io.modelcontextprotocol/clientInfo';

/** Returns the `clientInfo` of a message, also of one that is refused: of `initialize`, later of each. */
export function clientInfoOf(message: unknown): unknown {
  if (!isObject(message) || !isObject(message.params)) return undefined;
  const { clientInfo, _meta: meta } = message.params;
  if (message.method === 'initialize') return clientInfo;
  return isObject(meta) ? meta[META_CLIENT] : undefined;
}

/** The most characters that are redacted of a part of a client's name, before it is cut: no pattern matches half a token. */
const REDACTED_CHARS_MAX = 16 * 1024;

/**
 * Returns a client's `name/version` as it may be shown, from its `clientInfo`; undefined if that has no name. Escapes
 * controls: who names itself with a line break must not write a second line anywhere.
 */
export function clientText(clientInfo: unknown): string | undefined {
  if (!isObject(clientInfo) || typeof clientInfo.name !== 'string' || clientInfo.name === '') return undefined;
  const { name, version } = clientInfo;
  const parts = typeof version === 'string' && version !== '' ? [name, version] : [name];
  return excerptOf(escapedControls(parts.map((part) => redact(part.slice(0, REDACTED_CHARS_MAX))).join('/')));
}

// Capabilities are compared deeply: a client that opens URLs may not show forms, and extensions differ.

/** Returns the part of `required` that `declared` lacks; undefined if it lacks nothing. */
export function missingCapabilities(required: JsonObject, declared: JsonObject): JsonObject | undefined {
  return missingIn(withForm(required), withForm(declared), 'capabilities');
}

function missingIn(required: JsonObject, declared: JsonObject, of: string): JsonObject | undefined {
  const missing = Object.entries(required).flatMap(([name, wanted]) => {
    const lacked = missingOf(wanted, Object.hasOwn(declared, name) ? declared[name] : undefined, name, of);
    return lacked === undefined ? [] : [[name, lacked]];
  });
  return missing.length === 0 ? undefined : Object.fromEntries(missing);
}

function missingOf(wanted: unknown, given: unknown, name: string, of: string): unknown {
  if (!isObject(wanted)) return wanted === given ? undefined : wanted;
  if (!isObject(given)) return wanted;
  // Extensions are compared by name, without their settings.
  return of === 'extensions' ? undefined : missingIn(wanted, given, name);
}

/**
 * Returns the capabilities with `form` explicit. `elicitation: {}` predates modes, and means forms (client/elicitation,
 * "Capabilities").
 */
function withForm(capabilities: JsonObject): JsonObject {
  const { elicitation } = capabilities;
  if (!isObject(elicitation) || 'url' in elicitation) return capabilities;
  return { ...capabilities, elicitation: { form: {}, ...elicitation } };
}

// MCP Apps (protocol 2026-01-26): its names, and whether a client shows widgets.

export const UI_EXTENSION = 'io.modelcontextprotocol/ui';

/** The field of a result's `_meta` for the widget alone, which pages/widgets/widget.js reads. */
export const WIDGET_DATA = 'mcp-key-server/widget';

/** The capabilities of a client that shows widgets. */
export const WIDGETS_SHOWN = { extensions: { [UI_EXTENSION]: {} } };

/** Returns whether the capabilities declare widgets: not if they list media types without this one. */
export function showsWidgets(capabilities: unknown): boolean {
  const extensions = isObject(capabilities) ? capabilities.extensions : undefined;
  const declared = isObject(extensions) ? extensions[UI_EXTENSION] : undefined;
  if (!isObject(declared)) return false;
  const { mimeTypes } = declared;
  return mimeTypes === undefined || (Array.isArray(mimeTypes) && mimeTypes.includes(WIDGET_TYPE));
}
