// What the benchmark compares does the same: the flat script responds and logs as the server does.

import { expect, test } from 'bun:test';
import { buildDatabase } from './database.ts';
import {
  type Load,
  malformedKeys,
  mcp2025GetData,
  mcp2026GetData,
  responseTo,
  restGetData,
  unknownKeys,
} from './loads.ts';
import { startOther, startOurs } from './ours.ts';

/** Without the seconds that are left of a window: they pass between the two responses, and when depends on the machine. */
function timeless({ headers, ...response }: Awaited<ReturnType<typeof responseTo>>) {
  const { ratelimit = '', ...others } = headers;
  expect(ratelimit).toMatch(/;t=\d+$/);
  return { ...response, headers: { ...others, ratelimit: ratelimit.replace(/\d+$/, '') } };
}

test('the flat script responds with the bytes of the server, and logs its lines', async () => {
  const { path, keys } = await buildDatabase(2);
  const [key = '', other = ''] = keys;
  await using ours = await startOurs(path);
  await using flat = await startOther('flat', path);
  for (const load of [
    restGetData(key),
    mcp2025GetData(key),
    mcp2026GetData(key),
    restGetData(other),
    restGetData(key),
  ]) {
    expect(timeless(await responseTo(flat, load))).toEqual(timeless(await responseTo(ours, load)));
  }
  const linesOf = (log: string) =>
    log
      .split('\n')
      .filter((line) => line.includes('"API key authentication successful"'))
      .map((line) => line.replace(/"time":"[^"]+"/, '"time":""').replace(/"requestId":"\w+/, '"requestId":"'));
  const lines = linesOf(await ours.stop());
  expect(lines).toHaveLength(5);
  expect(linesOf(await flat.stop())).toEqual(lines);
});

test('what the server refuses the flat script refuses with the same status', async () => {
  const { path, keys } = await buildDatabase(1);
  const [key = ''] = keys;
  await using ours = await startOurs(path);
  await using flat = await startOther('flat', path);
  const withHeaders = (load: Load, headers: Record<string, string>) => ({
    ...load,
    headers: { ...load.headers, ...headers },
  });
  const refused: readonly [number, Load][] = [
    [401, malformedKeys],
    [401, unknownKeys],
    [400, { ...restGetData(key), body: '{' }],
    [400, { ...restGetData(key), body: '{"more":1}' }],
    [415, withHeaders(restGetData(key), { 'Content-Type': 'text/plain' })],
    [403, withHeaders(restGetData(key), { Host: 'example.com' })],
    [403, withHeaders(restGetData(key), { Origin: 'https://example.com' })],
    [400, withHeaders(mcp2025GetData(key), { 'MCP-Protocol-Version': '2020-01-01' })],
    [400, withHeaders(mcp2026GetData(key), { 'MCP-Protocol-Version': '2025-11-25' })],
    [400, withHeaders(mcp2026GetData(key), { 'Mcp-Method': 'tools/list' })],
    [400, withHeaders(mcp2026GetData(key), { 'Mcp-Name': 'whoami' })],
    [400, { ...mcp2025GetData(key), body: '{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{}}' }],
  ];
  for (const [status, load] of refused) {
    await responseTo(ours, load, status);
    await responseTo(flat, load, status);
  }
});
