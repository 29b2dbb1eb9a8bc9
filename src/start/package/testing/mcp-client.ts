// An MCP client for tests of tools: calls over the real route, answers a tool's questions, and records its progress.

import { isObject, type JsonObject } from '../../../ground/text.ts';
import { headerParamsAt } from './header-params.ts';

/** The newest revision, in which tools can ask. */
const NEWEST = '2026-07-28';

/** Authorizes calls by an API key or a user token. `era`: a revision of MCP, by default the newest. */
export interface McpOptions {
  readonly key?: string;
  readonly token?: string;
  readonly era?: string;
}

/** An answer to a form: its content, to accept it; or an action, with content for `accept`. */
export type McpAnswer = Readonly<Record<string, unknown>>;

export interface McpCallOptions {
  /**
   * Answers by the names of questions. A question without one is cancelled, but if another answer is left over, the call
   * throws an Error, as it does for an answer that doesn't fit its form. If left out, the client shows no forms.
   */
  readonly answers?: Readonly<Record<string, McpAnswer>>;
  readonly signal?: AbortSignal;
}

export interface McpAsked {
  readonly name: string;
  readonly message: string;
  /** JSON Schema of the form. */
  readonly requestedSchema: JsonObject;
}

export interface McpResult {
  // biome-ignore lint/suspicious/noExplicitAny: tests read results of any shape
  readonly structuredContent?: any;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  readonly content: any[];
  readonly isError?: boolean;
  readonly _meta?: JsonObject;
  /** What the tool reported, in order. */
  readonly progress: readonly { readonly progress: number; readonly total?: number; readonly message?: string }[];
  /** What the tool asked, in order. */
  readonly asked: readonly McpAsked[];
}

export interface McpClient {
  /** Calls a tool. Throws an Error for a JSON-RPC error, and if the server does not respond in MCP. */
  call(name: string, input?: object, options?: McpCallOptions): Promise<McpResult>;
  /** Lists the tools that this client may see. */
  // biome-ignore lint/suspicious/noExplicitAny: as above
  list(): Promise<any[]>;
}

/** Ends a test whose tool would ask for ever. */
const ROUNDS_MAX = 20;

const FORMS = { elicitation: { form: {} } };

/** What a request has besides its parameters. */
interface Sent {
  readonly capabilities?: object;
  /** Headers that repeat parameters. */
  readonly repeated?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

export function mcpClient(url: string, { key, token, era = NEWEST }: McpOptions): McpClient {
  const isNewest = era >= NEWEST;
  const credentials = {
    ...(key !== undefined && { 'X-API-Key': key }),
    ...(token !== undefined && { Authorization: `Bearer ${token}` }),
  };
  const headerParams = headerParamsAt(url);
  let ids = 0;

  async function send(
    method: string,
    params: JsonObject,
    { capabilities = {}, repeated = {}, signal }: Sent = {},
  ): Promise<Messages> {
    ids += 1;
    const meta = {
      ...(method === 'tools/call' && { progressToken: ids }),
      ...(isNewest && {
        'io.modelcontextprotocol/protocolVersion': era,
        'io.modelcontextprotocol/clientCapabilities': capabilities,
      }),
    };
    const response = await fetch(`${url}/mcp`, {
      method: 'POST',
      headers: {
        ...credentials,
        'Content-Type': 'application/json',
        Accept: 'application/json, text/event-stream',
        'MCP-Protocol-Version': era,
        'Mcp-Method': method,
        ...(typeof params.name === 'string' && { 'Mcp-Name': params.name }),
        ...repeated,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: ids, method, params: { ...params, _meta: meta } }),
      signal: signal ?? null,
    });
    return messagesIn(response);
  }

  async function call(name: string, input: object = {}, { answers, signal }: McpCallOptions = {}): Promise<McpResult> {
    const progress: McpResult['progress'][number][] = [];
    const asked: McpAsked[] = [];
    const capabilities = answers === undefined ? {} : FORMS;
    const repeated = isNewest ? await headerParams(name, input) : {};
    let carried: JsonObject = {};
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      const params = { name, arguments: input, ...carried };
      const { result, notified } = await send('tools/call', params, { capabilities, repeated, signal });
      for (const { progress: done, total, message } of notified) {
        progress.push({
          progress: Number(done),
          ...(total !== undefined && { total: Number(total) }),
          ...(message !== undefined && { message: String(message) }),
        });
      }
      if (!isObject(result.inputRequests)) {
        assertNamed(answers, asked);
        return { ...(result as unknown as McpResult), progress, asked };
      }
      const questions = Object.entries(result.inputRequests).map(([question, request]) => {
        const { message, requestedSchema } = (request as { readonly params: McpAsked }).params;
        return { name: question, message, requestedSchema };
      });
      asked.push(...questions);
      const inputResponses = Object.fromEntries(
        questions.map((question) => [question.name, answered(question, answers)]),
      );
      carried = { inputResponses, requestState: result.requestState };
    }
    throw new Error(`${name} asked more than ${ROUNDS_MAX} times`);
  }

  return {
    call,
    async list() {
      const { result } = await send('tools/list', {});
      return result.tools as object[];
    },
  };
}

function answered({ name, requestedSchema }: McpAsked, answers: McpCallOptions['answers'] = {}): object {
  const answer = Object.hasOwn(answers, name) ? answers[name] : undefined;
  if (answer === undefined) return { action: 'cancel' };
  if (!isObject(answer))
    throw new Error(`answers.${name}: expected content, or { action }, got ${JSON.stringify(answer)}`);
  const response = typeof answer.action === 'string' ? answer : { action: 'accept', content: answer };
  const fault = faultIn(response, requestedSchema);
  if (fault !== null) throw new Error(`answers.${name}: ${fault}`);
  return response;
}

const ACTIONS: readonly unknown[] = ['accept', 'decline', 'cancel'];

/** Returns what the server would ask for again, or drop; null: nothing. The server validates the values. */
function faultIn({ action, content }: McpAnswer, { properties, required = [] }: JsonObject): string | null {
  if (!ACTIONS.includes(action)) return `expected the action ${ACTIONS.join(', ')}, got ${JSON.stringify(action)}`;
  if (action !== 'accept') return null;
  const [given, fields] = [Object.keys(Object(content)), Object.keys(Object(properties))];
  const unknown = given.filter((name) => !fields.includes(name));
  const missing = (required as readonly string[]).filter((name) => !given.includes(name));
  const faults = [...unknown.map((name) => `${name}: unknown field`), ...missing.map((name) => `${name}: required`)];
  return faults.join('; ') || null;
}

/** Throws an Error if a question has no answer while an answer is left over: its name is probably misspelt. */
function assertNamed(answers: McpCallOptions['answers'] = {}, asked: readonly McpAsked[]): void {
  const names = [...new Set(asked.map(({ name }) => name))];
  const [left] = Object.keys(answers).filter((name) => !names.includes(name));
  if (left === undefined || names.every((name) => Object.hasOwn(answers, name))) return;
  throw new Error(`answers.${left}: no question has this name; asked were ${names.join(', ')}`);
}

interface Messages {
  readonly result: JsonObject;
  /** The parameters of the messages before the result. */
  readonly notified: readonly JsonObject[];
}

async function messagesIn(response: Response): Promise<Messages> {
  const text = await response.text();
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
  const messages: JsonObject[] = isStream ? dataIn(text).map((data) => JSON.parse(data)) : [JSON.parse(text || 'null')];
  const last = messages.at(-1);
  if (isObject(last?.result)) {
    const notified = messages.flatMap(({ params }) => (isObject(params) ? [params] : []));
    return { result: last.result, notified };
  }
  const error = isObject(last?.error) ? last.error : { message: `/mcp responded ${response.status}` };
  throw Object.assign(new Error(String(error.message)), { code: error.code, status: response.status });
}

const DATA = 'data: ';

/** Returns the data of events. No pattern: `.` and `$` stop at U+2028, which JSON may contain. */
const dataIn = (events: string): readonly string[] =>
  events
    .split('\n')
    .filter((line) => line.startsWith(DATA))
    .map((line) => line.slice(DATA.length));
