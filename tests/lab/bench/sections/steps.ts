// What each step of a call adds to those before, in processor time: the last is the whole, so the steps sum to it. The
// collector's work is in each. The first three are of a bare server.

import { folderWith } from '../../../support/folder.ts';
import { buildDatabase } from '../database.ts';
import { type Load, mcp2025GetData, mcp2026GetData, responseTo, restGetData } from '../loads.ts';
import { cpuUs, figure, measure, type Subject } from '../measure.ts';
import { startBare, startBatchedBare, startOurs } from '../ours.ts';
import { markdown, type Section } from '../report.ts';

/** Tools that stop at a step: one that does nothing, one that returns what get_data does, and that one behind a key. */
const TOOLS = `import { defineTool, ok, type ToolDeps, v } from 'mcp-key-server';

const OWNER = { owner: 'user-0', key: { id: '0123456789abcdef0123456789abcdef', name: 'bench key', scopes: ['read'] } };
const ROWS = [
  { id: 'sample-1', title: 'First sample row', amount: 10 },
  { id: 'sample-2', title: 'Second sample row', amount: 20 },
];
const output = v.strictObject({
  owner: v.string(),
  key: v.strictObject({ id: v.string(), name: v.string(), scopes: v.array(v.string()) }),
  data: v.array(v.strictObject({ id: v.string(), title: v.string(), amount: v.number() })),
});
const facts = (name: string) => ({
  name,
  title: name,
  description: name,
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  input: v.strictObject({}),
});
const free = () => ok({});

export default ({ guards }: ToolDeps) => [
  defineTool(free, { ...facts('nothing'), output: v.strictObject({}), run: () => ok({}) }),
  defineTool(free, { ...facts('data'), output, run: () => ok({ ...OWNER, data: ROWS }) }),
  defineTool(guards.apiKey, { ...facts('keyed'), output, run: () => ok({ ...OWNER, data: ROWS }) }),
];
`;

export const steps: Section = async (plan) => {
  const { path, keys } = await buildDatabase(1000);
  const [key = ''] = keys;
  const quiet = { LOG_LEVEL: 'warn', TOOLS_DIR: folderWith({ 'steps.ts': TOOLS }) };
  await using logging = await startOurs(path);
  await using limiting = await startOurs(path, quiet);
  await using unlimited = await startOurs(path, { ...quiet, RATE_LIMIT_REQUESTS: '0' });
  const rest = restGetData(key);
  const response = await responseTo(logging, rest);
  await using unread = await startBare(response, 'nothing');
  await using read = await startBare(response);
  await using batched = await startBatchedBare(response);
  const of = (name: string): Load => ({ ...rest, path: `/tools/${name}` });

  const subjects: Readonly<Record<string, Subject>> = {
    'socket and HTTP': { server: unread, load: rest },
    'body, read and parsed': { server: read, load: rest },
    'responses of a turn sent together': { server: batched, load: rest },
    'routing, checks, credentials, response': { server: unlimited, load: of('nothing') },
    'tool, its output checked and encoded': { server: unlimited, load: of('data') },
    'key: hash, memory, identity': { server: unlimited, load: of('keyed') },
    'limits, scopes, two headers': { server: limiting, load: rest },
    'a line of the log': { server: logging, load: rest },
  };
  const more: Readonly<Record<string, Subject>> = {
    'get_data over MCP 2025-11-25': { server: logging, load: mcp2025GetData(key) },
    'get_data over MCP 2026-07-28': { server: logging, load: mcp2026GetData(key) },
  };
  for (const { server, load } of [...Object.values(subjects), ...Object.values(more)]) await responseTo(server, load);
  const measured = await measure({ ...subjects, ...more }, plan);
  const usOf = (name: string) => figure(measured[name] ?? { runs: [] }, cpuUs);
  const names = Object.keys(subjects);
  const rows = names.map((name, at) => {
    const before = at === 0 ? 0 : usOf(names[at - 1] ?? '');
    return [name, (usOf(name) - before).toFixed(1), usOf(name).toFixed(1)];
  });
  const others = Object.keys(more).map((name) => [name, '', usOf(name).toFixed(1)]);
  const head = ['Step of get_data over REST', 'CPU µs', 'up to here'];
  return { rows: [], targets: [], tables: [markdown(head, [...rows, ...others])] };
};
