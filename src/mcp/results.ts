// Writes MCP results: those of calls, of problems, the items of lists, and the server's description.

import type { Resource } from '../calls/content.ts';
import type { Operation, ToolResult } from '../calls/operation.ts';
import type { Prompt } from '../calls/prompt.ts';
import { inWords } from '../calls/schema.ts';
import type { Tool } from '../calls/tool.ts';
import {
  type InputIssue,
  type Problem,
  problemText,
  protocolNames,
  publicPart,
  retryAfterSeconds,
} from '../ground/problem.ts';
import { UI_EXTENSION, WIDGET_DATA } from './client.ts';
import {
  CODES,
  type Era,
  eraFields,
  errorText,
  type Id,
  type RequestMessage,
  type RpcError,
  resultText,
} from './message.ts';

/** Returns the JSON-RPC error of a problem; undefined if it is reported as a result. */
function rpcErrorOf(problem: Problem, requestId: string): RpcError | undefined {
  const { rpc } = protocolNames(problem);
  if (rpc === undefined) return undefined;
  return {
    code: CODES[rpc],
    message: sentenceOf(problem),
    data: 'issues' in problem ? { issues: problem.issues } : { requestId },
  };
}

export const bugError = (requestId: string): RpcError => ({
  code: CODES.internal,
  message: problemText('internal').detail,
  data: { requestId },
});

/** Returns the JSON-RPC error of a prompt's problem: a prompt's result can't report one. */
function promptError(problem: Problem, requestId: string): RpcError {
  if (problem.code !== 'invalid_input') return rpcErrorOf(problem, requestId) ?? deniedError(problem);
  const { issues, detail = 'The arguments do not fit the prompt' } = problem;
  return { code: CODES.invalidParams, message: withIssues(detail, issues), data: { issues } };
}

/** Returns the reply to a request that did not run, or whose reply can't be sent. */
export function deniedText({ id, method }: RequestMessage, era: Era, problem: Problem): string {
  return method === 'tools/call'
    ? resultText(id, eraFields(era) + refusalFields(sentenceOf(problem), hintOf(problem)))
    : errorText(id, deniedError(problem));
}

/** Returns the error for a refusal of anything but a tool call. `data` says what would help. */
function deniedError(problem: Problem): RpcError {
  const { code, detail: message } = publicPart(problem);
  const retryAfterS = retryAfterSeconds(problem);
  const data = {
    code,
    ...(retryAfterS !== null && { retryAfterS }),
    ...('of' in problem && { of: problem.of }),
    ...(problem.code === 'insufficient_scope' && { requiredScopes: problem.required }),
  };
  return { code: CODES.denied, message, data };
}

/** Returns the JSON text of a result without its braces. The JSON of an output goes in unchanged. */
function resultFields({ kind }: Operation, result: ToolResult): string {
  if (!result.ok) return refusalFields(sentenceOf(result.error), hintOf(result.error));
  const { value } = result;
  if ('inputRequired' in value) return value.inputRequired;
  if ('contentJson' in value) return value.contentJson.slice(1, -1);
  if (kind !== 'tool') return value.json.slice(1, -1); // that of a prompt or completion is the result itself
  return `"content":[{"type":"text","text":${JSON.stringify(value.json)}}],"structuredContent":${value.json}`;
}

/** Returns the fields of a refusal; `hint` becomes a separate block. */
function refusalFields(sentence: string, hint: string | null): string {
  const content = [sentence, hint].filter((text) => text !== null).map((text) => ({ type: 'text', text }));
  return `"content":${JSON.stringify(content)},"isError":true`;
}

/** Returns the sentence that REST has as `detail`, with the issues of bad input. */
function sentenceOf(problem: Problem): string {
  const { detail } = publicPart(problem);
  return 'issues' in problem ? withIssues(detail, problem.issues) : detail;
}

/** Adds the issues that the sentence doesn't mention; a tool's own words may. */
function withIssues(sentence: string, issues: readonly InputIssue[]): string {
  const lines = issues.map((issue) => inWords([issue])).filter((line) => !sentence.includes(line));
  return lines.length === 0 ? sentence : [`${sentence}:`, ...lines.map((line) => `- ${line}`)].join('\n');
}

/** Returns what would help: scopes, the problem's `help`, or when to try again. */
function hintOf(problem: Problem): string | null {
  if (problem.code === 'insufficient_scope') return `The key needs these scopes: ${problem.required.join(' ')}`;
  if (problem.code === 'scope_not_granted')
    return `You may give these scopes: ${problem.grantable.join(' ') || 'none'}`;
  if ('help' in problem && problem.help !== undefined) return problem.help;
  const seconds = retryAfterSeconds(problem);
  const hints = [
    'of' in problem && problem.of === 'owner' && 'of: owner',
    seconds !== null && `Try again in ${seconds} s`,
  ].filter(Boolean);
  return hints.join('. ') || null;
}

/** Returns the text of the reply to a call, and whether that is an error of JSON-RPC or of the tool. */
export function callResultText(id: Id, era: Era, operation: Operation, result: ToolResult, requestId: string) {
  const problemError = operation.kind === 'tool' ? rpcErrorOf : promptError;
  const error = result.ok ? undefined : problemError(result.error, requestId);
  if (error !== undefined) return { text: errorText(id, error), errorCode: error.code, isError: false };
  const type = result.ok && 'inputRequired' in result.value ? 'input_required' : 'complete';
  return {
    text: resultText(id, eraFields(era, type, metaOf(result)) + resultFields(operation, result)),
    isError: !result.ok || ('isError' in result.value && result.value.isError),
  };
}

/** Returns the fields of `_meta`: the data of the tool or problem for the widget. */
function metaOf(result: ToolResult): string | undefined {
  const widgetJson = result.ok
    ? 'widgetJson' in result.value && result.value.widgetJson
    : problemForWidget(result.error);
  return widgetJson ? `"${WIDGET_DATA}":${widgetJson}` : undefined;
}

const problemForWidget = (problem: Problem): string | undefined =>
  problem.code === 'rotation_under_way'
    ? JSON.stringify({ code: problem.code, previousUntil: problem.untilMs })
    : undefined;

/** Returns the server's capabilities, with prompts and completions only if there are any. */
export const capabilitiesOf = (prompts: ReadonlyMap<string, Prompt>) => ({
  tools: {},
  resources: {},
  ...(prompts.size > 0 && { prompts: {} }),
  ...(prompts.values().some(({ completes }) => completes) && { completions: {} }),
  extensions: { [UI_EXTENSION]: {} },
});

export const INSTRUCTIONS =
  'API keys for programs. create_api_key, list_api_keys, rotate_api_key, revoke_api_key and delete_api_key act for a signed-in user (Authorization: Bearer <JWT>). Most other tools take an API key (X-API-Key, or Authorization: Bearer <key>); each says what it needs. A new key is shown once: hand it to the user at once and do not repeat it later.';

type ObjectJsonSchema = { type: 'object'; [keyword: string]: unknown };

export const describeTool = ({ name, title, description, annotations, widget, ...tool }: Tool) => ({
  name,
  title,
  description,
  inputSchema: tool.inputSchema() as ObjectJsonSchema, // the root of every tool's input is an object
  ...(tool.outputSchema !== null && { outputSchema: tool.outputSchema() as ObjectJsonSchema }),
  annotations: { title, ...annotations },
  ...metaOfTool(widget, tool.cost),
});

const metaOfTool = (widget: string | undefined, cost = 1) =>
  (widget !== undefined || cost !== 1) && {
    _meta: {
      // Early hosts of MCP Apps read the flat key.
      ...(widget !== undefined && { ui: { resourceUri: widget }, 'ui/resourceUri': widget }),
      ...(cost !== 1 && { 'mcp-key-server/cost': cost }),
    },
  };

export const describePrompt = ({ name, title, description, arguments: listed }: Prompt) => ({
  name,
  title,
  description,
  arguments: listed,
});

export const describeResource = ({ uri, name, title, description, mimeType, meta }: Resource) => ({
  uri,
  name,
  title,
  description,
  mimeType,
  ...(meta && { _meta: meta }),
});
