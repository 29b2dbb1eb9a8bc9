// What the server does for each method, as a pure plan: a result, an error, or the call to make. Making the call, and
// HTTP, is left to the transports.

import type { Prompt } from '../calls/prompt.ts';
import type { Resource } from '../calls/resource.ts';
import type { Tool } from '../calls/tool.ts';
import { once } from '../lib/memoize.ts';
import { isObject } from '../lib/text.ts';
import { redact } from '../log/redact.ts';
import type { RequestStates } from './asking.ts';
import { missingCapabilities } from './capabilities.ts';
import {
  capabilitiesOf,
  describePrompt,
  describeResource,
  describeTool,
  eraMembers,
  INSTRUCTIONS,
  SERVER_INFO,
} from './descriptions.ts';
import { type Era, LATEST_LEGACY_VERSION, LEGACY_VERSIONS, type MessageContext, MODERN_VERSIONS } from './era.ts';
import { CODES, type RequestMessage } from './message.ts';
import { mismatchedParam, mismatchMessage } from './mirrored-headers.ts';
import { callPlan, failed, invalidParams, type Method, membersOf, type Plan, result } from './plan.ts';

export interface Methods {
  plan(request: RequestMessage, context: MessageContext): Plan;
}

export interface MethodsOptions {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly prompts: ReadonlyMap<string, Prompt>;
  readonly resources: readonly Resource[];
  readonly requestStates: RequestStates;
}

/** Lists and resources change only when the server is restarted. */
const CACHE_MS = 3_600_000;

const UNKNOWN_PROMPT = invalidParams('Unknown prompt');

const NO_TEMPLATES = membersOf({ resourceTemplates: [] });

const ERA_FACTS = {
  legacy: {
    listMembers: '',
    unknownMethodStatus: 200,
    resourceNotFound: CODES.resourceNotFound,
  },
  modern: {
    listMembers: `${eraMembers('modern')}"ttlMs":${CACHE_MS},"cacheScope":"public",`,
    unknownMethodStatus: 404,
    resourceNotFound: CODES.invalidParams,
  },
} as const;

export function createMethods(options: MethodsOptions): Methods {
  const { tools, prompts, resources, requestStates } = options;
  const capabilities = capabilitiesOf(prompts);
  // Encoded once: a batch may read the same resource a hundred times.
  const resourcesByUri = new Map(resources.map((resource) => [resource.uri, once(() => contentsOf(resource))]));

  // Made at first use: start-up needs no schemas.
  const toolsJson = once(() => membersOf({ tools: Array.from(tools.values(), describeTool) }));
  const promptsJson = once(() => membersOf({ prompts: Array.from(prompts.values(), describePrompt) }));
  const resourcesJson = once(() => membersOf({ resources: resources.map(describeResource) }));

  const list =
    (members: () => string): Method =>
    ({ cursor }, { era }) =>
      cursor === undefined
        ? result(ERA_FACTS[era].listMembers + members())
        : invalidParams('Unknown cursor: this list has one page');

  const initialize: Method = ({ protocolVersion }) => {
    if (typeof protocolVersion !== 'string') return invalidParams('protocolVersion must be a string');
    const known = LEGACY_VERSIONS.includes(protocolVersion);
    const about = { capabilities, serverInfo: SERVER_INFO, instructions: INSTRUCTIONS };
    return result(membersOf({ protocolVersion: known ? protocolVersion : LATEST_LEGACY_VERSION, ...about }));
  };

  const discovered = membersOf({
    supportedVersions: MODERN_VERSIONS,
    capabilities,
    instructions: INSTRUCTIONS,
  });

  const callTool: Method = (params, context) => {
    const { era, clientCapabilities, headers } = context;
    const { name, arguments: given = {} } = params;
    if (typeof name !== 'string') return invalidParams('name must be a string');
    if (!isObject(given)) return invalidParams('arguments must be an object');
    const tool = tools.get(name);
    if (tool === undefined) return invalidParams('Unknown tool');
    if (era === 'modern') {
      const header = mismatchedParam(tool.headerParams(), given, headers);
      if (header !== undefined) return failed(400, CODES.headerMismatch, mismatchMessage(header));
      const requiredCapabilities = tool.requiresClient && missingCapabilities(tool.requiresClient, clientCapabilities);
      if (requiredCapabilities !== undefined) {
        const message = 'The tool needs a capability that the client did not declare';
        return failed(400, CODES.missingClientCapability, message, { requiredCapabilities });
      }
    }
    return callPlan(tool, given, params, context, requestStates);
  };

  const readResource: Method = ({ uri }, { era }) => {
    if (typeof uri !== 'string') return invalidParams('uri must be a string');
    const facts = ERA_FACTS[era];
    const known = resourcesByUri.get(uri);
    if (known !== undefined) return result(facts.listMembers + known());
    return failed(200, facts.resourceNotFound, 'Resource not found', { uri: redact(uri) });
  };

  const getPrompt: Method = (params, context) => {
    const { name, arguments: given = {} } = params;
    if (typeof name !== 'string') return invalidParams('name must be a string');
    if (!isObject(given)) return invalidParams('arguments must be an object');
    const prompt = prompts.get(name);
    return prompt === undefined ? UNKNOWN_PROMPT : callPlan(prompt, given, params, context, requestStates);
  };

  const completeArgument: Method = (params, context) => {
    const { ref, argument, context: known = {} } = params;
    if (!isObject(ref)) return invalidParams('ref must be an object');
    if (ref.type === 'ref/resource') return invalidParams('Unknown resource template'); // there are none
    if (ref.type !== 'ref/prompt') return invalidParams('ref.type must be ref/prompt or ref/resource');
    const prompt = typeof ref.name === 'string' ? prompts.get(ref.name) : undefined;
    if (prompt === undefined) return UNKNOWN_PROMPT;
    return callPlan(prompt.complete, { argument, context: known }, params, context);
  };

  const common: [string, Method][] = [
    ['tools/list', list(toolsJson)],
    ['tools/call', callTool],
    ['resources/list', list(resourcesJson)],
    ['resources/templates/list', list(() => NO_TEMPLATES)],
    ['resources/read', readResource],
  ];
  if (capabilities.prompts) {
    common.push(['prompts/list', list(promptsJson)], ['prompts/get', getPrompt]);
  }
  if (capabilities.completions) {
    common.push(['completion/complete', completeArgument]);
  }
  const methods: Readonly<Record<Era, ReadonlyMap<string, Method>>> = {
    legacy: new Map([...common, ['initialize', initialize], ['ping', () => result('')]]),
    modern: new Map([...common, ['server/discover', () => result(ERA_FACTS.modern.listMembers + discovered)]]),
  };

  return {
    plan({ method, params }, context) {
      const run = methods[context.era].get(method);
      if (run !== undefined) return run(params, context);
      return failed(ERA_FACTS[context.era].unknownMethodStatus, CODES.methodNotFound, 'Method not found');
    },
  };
}

function contentsOf(resource: Resource): string {
  const { uri, mimeType, meta } = resource;
  return membersOf({ contents: [{ uri, mimeType, ...resource.read(), ...(meta && { _meta: meta }) }] });
}
