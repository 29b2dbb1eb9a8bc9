// The table of MCP methods. Each turns a request into a result, an error, or a call to run.

import { contentOf, type Resource } from '../calls/content.ts';
import type { Identity, Sender } from '../calls/identify.ts';
import { type Operation, TOOL_TIMEOUT_MS } from '../calls/operation.ts';
import type { Prompt } from '../calls/prompt.ts';
import type { Tool } from '../calls/tool.ts';
import { once } from '../ground/cache.ts';
import { LIMITS } from '../ground/limits/index.ts';
import type { Awaitable } from '../ground/result.ts';
import { type Clock, withTimeout } from '../ground/runtime.ts';
import { isObject, type JsonObject, jsonOf } from '../ground/text.ts';
import type { Log } from '../watch/log.ts';
import { redact } from '../watch/redact.ts';
import { apiKeyInMeta, carriesCredential, type RequestContext } from '../web/context.ts';
import { missingCapabilities } from './client.ts';
import { LATEST_LEGACY_VERSION, LEGACY_VERSIONS, MODERN_VERSIONS, mismatchedParam, mismatchMessage } from './era.ts';
import { CODES, type Era, fieldsOf, type Params, type RequestMessage, type RpcError, SERVER_INFO } from './message.ts';
import { bugError, capabilitiesOf, describePrompt, describeResource, describeTool, INSTRUCTIONS } from './results.ts';

/** Who sent a request, and what its client can do. */
export interface Requester {
  readonly sender: Sender;
  readonly era: Era;
  readonly capabilities: JsonObject;
}

export interface Failed {
  readonly error: RpcError;
  /** The status of the HTTP response; 200 by default. */
  readonly status?: 400 | 404;
}

export interface PlannedCall {
  readonly operation: Operation;
  /** The input, which may have its own `_meta`. */
  readonly given: JsonObject;
}

export type Outcome =
  /** The JSON text of the result without its braces. With `cacheScope` clients may cache it. */
  { readonly fields: string; readonly cacheScope?: 'public' | 'private' } | Failed | PlannedCall;

export interface Method {
  /** The era that has the method; both by default. */
  readonly only?: Era;
  readonly run: (params: Params, requester: Requester) => Awaitable<Outcome>;
}

const CALLING: readonly string[] = ['tools/call', 'prompts/get', 'completion/complete'];
export const makesCall = (method: string): boolean => CALLING.includes(method);

export interface Offered {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly prompts: ReadonlyMap<string, Prompt>;
  readonly resources: readonly Resource[];
}

/** Returns what a request calls; undefined if it calls nothing that is there. */
export function calledIn({ tools, prompts }: Offered, { method, params }: RequestMessage): Operation | undefined {
  const { name } = method === 'completion/complete' && isObject(params.ref) ? params.ref : params;
  if (typeof name !== 'string' || !makesCall(method)) return undefined;
  if (method === 'tools/call') return tools.get(name);
  const prompt = prompts.get(name);
  return method === 'prompts/get' ? prompt : prompt?.complete;
}

const publicOutcome = (fields: string): Outcome => ({ fields, cacheScope: 'public' });

const failedOutcome = (message: string, code: number = CODES.invalidParams, data?: unknown, status?: 400): Failed => ({
  error: { code, message, data },
  ...(status && { status }),
});

/**
 * Creates the methods, by name, for all transports: what they read and describe once they keep. `listsAll`: lists show all
 * tools and prompts, not just those that the sender can call.
 */
export function createMethods(
  { tools, prompts, resources }: Offered,
  listsAll: boolean,
  clock: Clock,
  log: Log,
): ReadonlyMap<string, Method> {
  const about = { capabilities: capabilitiesOf(prompts), instructions: INSTRUCTIONS };
  /** What reads each resource once. Who asks meanwhile waits for it, too, and after a failure the next one reads again. */
  const readers = new Map(resources.map((resource) => [resource.uri, once(() => contentsOf(resource, clock))]));

  async function read(uri: string, reader: () => Promise<string>, { requestId }: RequestContext): Promise<Outcome> {
    try {
      return publicOutcome(await reader());
    } catch (error) {
      log.error('internal error', { requestId, uri, error });
      return { error: bugError(requestId) };
    }
  }

  const methods = {
    initialize: {
      only: 'legacy',
      run({ protocolVersion: asked }) {
        if (typeof asked !== 'string') return failedOutcome('protocolVersion must be a string');
        const protocolVersion = LEGACY_VERSIONS.includes(asked) ? asked : LATEST_LEGACY_VERSION;
        return { fields: fieldsOf({ protocolVersion, serverInfo: SERVER_INFO, ...about }) };
      },
    },
    ping: { only: 'legacy', run: () => ({ fields: '' }) },
    'server/discover': {
      only: 'modern',
      run: () => publicOutcome(fieldsOf({ supportedVersions: MODERN_VERSIONS, ...about })),
    },
    'tools/list': listOf('tools', tools, describeTool, listsAll),
    'tools/call': { run: (params, requester) => callOfNamed(tools, 'Unknown tool', params, requester) },
    'resources/list': { run: onePage(once(() => fieldsOf({ resources: resources.map(describeResource) }))) },
    'resources/templates/list': { run: onePage(() => fieldsOf({ resourceTemplates: [] })) },
    'resources/read': {
      run({ uri }, { era, sender }) {
        if (typeof uri !== 'string') return failedOutcome('uri must be a string');
        const reader = readers.get(uri);
        if (reader !== undefined) return read(uri, reader, sender.context);
        const code = era === 'modern' ? CODES.invalidParams : CODES.resourceNotFound;
        return failedOutcome('Resource not found', code, { uri: redact(uri) });
      },
    },
    ...(about.capabilities.prompts && {
      'prompts/list': listOf('prompts', prompts, describePrompt, listsAll),
      'prompts/get': { run: (params, requester) => callOfNamed(prompts, UNKNOWN_PROMPT, params, requester) },
    }),
    ...(about.capabilities.completions && {
      'completion/complete': {
        run({ ref, argument, context: known = {} }) {
          if (!isObject(ref)) return failedOutcome('ref must be an object');
          if (ref.type === 'ref/resource') return failedOutcome('Unknown resource template'); // there are none
          if (ref.type !== 'ref/prompt') return failedOutcome('ref.type must be ref/prompt or ref/resource');
          const prompt = typeof ref.name === 'string' ? prompts.get(ref.name) : undefined;
          return prompt === undefined
            ? failedOutcome(UNKNOWN_PROMPT)
            : { operation: prompt.complete, given: { argument, context: known } };
        },
      },
    }),
  } satisfies Readonly<Record<string, Method>>;
  return new Map(Object.entries(methods));
}

const UNKNOWN_PROMPT = 'Unknown prompt';

const onePage =
  (fields: () => string): Method['run'] =>
  ({ cursor }) =>
    cursor === undefined ? publicOutcome(fields()) : failedOutcome('Unknown cursor: this list has one page');

/**
 * Creates a list method. Callers with a valid credential see what they can call with it, everybody else sees all.
 * Verifying a key for this counts no use.
 */
function listOf<T extends Operation>(
  name: string,
  operations: ReadonlyMap<string, T>,
  describe: (operation: T) => object,
  listsAll: boolean,
): Method {
  // Described on first use: start-up needs no schemas.
  const described = once(() => Array.from(operations.values(), (one) => ({ one, json: jsonOf(describe(one)) })));
  const fieldsFor = (isShown: (operation: T) => boolean) => {
    const shown = described().filter(({ one }) => isShown(one));
    return `"${name}":[${shown.map(({ json }) => json).join(',')}]`;
  };
  const all = once(() => fieldsFor(() => true));
  const toAll = onePage(all);
  return {
    async run(params, requester) {
      const { sender } = requester;
      const key = apiKeyInMeta(params._meta);
      if (listsAll || params.cursor !== undefined || (key === null && !carriesCredential(sender.context.credentials))) {
        return toAll(params, requester);
      }
      const identity = await sender.identify(key);
      const fields = isValid(identity) ? fieldsFor((one) => mayCall(identity, one)) : all();
      return { fields, cacheScope: 'private' };
    },
  };
}

const isValid = ({ user, key }: Identity): boolean => user?.ok === true || key?.ok === true;

function mayCall({ user, key }: Identity, { credential, admits }: Operation): boolean {
  if (credential === null) return true;
  const sender = credential === 'user_jwt' ? user : key;
  return sender?.ok === true && admits(sender.value);
}

function callOfNamed(
  operations: ReadonlyMap<string, Tool | Prompt>,
  unknown: string,
  { name, arguments: given = {} }: Params,
  { sender, era, capabilities }: Requester,
): Outcome {
  if (typeof name !== 'string') return failedOutcome('name must be a string');
  if (!isObject(given)) return failedOutcome('arguments must be an object');
  const operation = operations.get(name);
  if (operation === undefined) return failedOutcome(unknown);
  const call = { operation, given };
  if (era === 'legacy' || operation.kind !== 'tool') return call;
  const header = mismatchedParam(operation.headerParams(), given, sender.context.headers);
  if (header !== undefined) return failedOutcome(mismatchMessage(header), CODES.headerMismatch, undefined, 400);
  const { requiresClient } = operation;
  const requiredCapabilities = requiresClient && missingCapabilities(requiresClient, capabilities);
  if (requiredCapabilities === undefined) return call;
  const message = 'The tool needs a capability that the client did not declare';
  return failedOutcome(message, CODES.missingClientCapability, { requiredCapabilities }, 400);
}

/**
 * Reads a resource, for a minute at most: its function may never end. Rejects with an Error then, and if no response has room
 * for the content: a problem would invite a retry.
 */
async function contentsOf(resource: Resource, clock: Clock): Promise<string> {
  const { uri, mimeType, meta } = resource;
  const content = await withTimeout(Promise.resolve(contentOf(resource)), TOOL_TIMEOUT_MS, null, clock);
  if (content === null) throw new Error(`${uri}: it is read for too long`);
  const fields = fieldsOf({ contents: [{ uri, mimeType, ...content, ...(meta && { _meta: meta }) }] });
  const { total: bytesMax } = LIMITS.unread;
  const bytes = new TextEncoder().encode(fields).length;
  if (bytes > bytesMax) throw new Error(`${uri}: expected a resource of at most ${bytesMax} bytes, got ${bytes}`);
  return fields;
}
