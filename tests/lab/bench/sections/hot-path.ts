// One key, one tool, over REST and both eras of MCP: against the bare limit, the flat script,
// and the SDK's own servers.

import { buildDatabase } from '../database.ts';
import { mcp2025GetData, mcp2026GetData, responseTo, restGetData } from '../loads.ts';
import { cpuUs, joined, type Measured, measure, p99Ms, perSecond, ratio } from '../measure.ts';
import { startBare, startBatchedBare, startOther, startOurs } from '../ours.ts';
import type { Plan } from '../plan.ts';
import { atLeast, atMost, type Section, type Target } from '../report.ts';

/** Two processes of each server, one after the other: two of the same kind may differ by some percent all along. */
export const hotPath: Section = async (plan) => {
  const measured = joined(await measureOnce(plan), await measureOnce(plan));
  const rest = { bare: measured.bareRest, flat: measured.flatRest };
  const mcp2025 = { bare: measured.bare2025, flat: measured.flat2025 };
  const mcp2026 = { bare: measured.bare2026, flat: measured.flat2026 };
  return {
    rows: [
      { name: "bare limit, get_data's REST response", measured: measured.bareRest },
      { name: 'the same with batching', bare: measured.bareRest, measured: measured.batchedRest },
      { name: 'flat script over REST', bare: measured.bareRest, measured: measured.flatRest },
      { name: '**get_data over REST**', ...rest, measured: measured.rest },
      { name: "bare limit, get_data's MCP 2025-11-25 response", measured: measured.bare2025 },
      { name: 'flat script over MCP 2025-11-25', bare: measured.bare2025, measured: measured.flat2025 },
      { name: '**get_data over MCP 2025-11-25**', ...mcp2025, measured: measured.mcp2025 },
      { name: 'SDK v1, stateless, the same key check', ...mcp2025, measured: measured.sdkV1 },
      { name: "bare limit, get_data's MCP 2026-07-28 response", measured: measured.bare2026 },
      { name: 'flat script over MCP 2026-07-28', bare: measured.bare2026, measured: measured.flat2026 },
      { name: '**get_data over MCP 2026-07-28**', ...mcp2026, measured: measured.mcp2026 },
      { name: 'SDK v2, stateless, the same key check', ...mcp2026, measured: measured.sdkV2 },
    ],
    targets: [
      ...closeToBest('get_data over REST', measured.rest, rest, 0.75),
      ...closeToBest('get_data over MCP 2025-11-25', measured.mcp2025, mcp2025, 0.75),
      ...closeToBest('get_data over MCP 2026-07-28', measured.mcp2026, mcp2026, 0.75),
      atLeast('MCP 2025-11-25, times the SDK v1', ratio(measured.mcp2025, measured.sdkV1, perSecond), 10),
      atLeast('MCP 2026-07-28, times the SDK v2', ratio(measured.mcp2026, measured.sdkV2, perSecond), 9),
    ],
  };
};

async function measureOnce(plan: Plan) {
  const { path, keys } = await buildDatabase(1000);
  const [key = ''] = keys;
  const loads = { rest: restGetData(key), mcp2025: mcp2025GetData(key), mcp2026: mcp2026GetData(key) };

  await using ours = await startOurs(path);
  await using flat = await startOther('flat', path);
  await using bareRest = await startBare(await responseTo(ours, loads.rest));
  await using bare2025 = await startBare(await responseTo(ours, loads.mcp2025));
  await using bare2026 = await startBare(await responseTo(ours, loads.mcp2026));
  await using batchedRest = await startBatchedBare(await responseTo(ours, loads.rest));
  await using sdkV1 = await startOther('sdk-v1', path);
  await using sdkV2 = await startOther('sdk-v2', path);
  for (const load of Object.values(loads)) await responseTo(flat, load);
  await responseTo(sdkV1, loads.mcp2025);
  await responseTo(sdkV2, loads.mcp2026);

  // Awaited here: the servers end with this function.
  return await measure(
    {
      bareRest: { server: bareRest, load: loads.rest },
      batchedRest: { server: batchedRest, load: loads.rest },
      flatRest: { server: flat, load: loads.rest },
      rest: { server: ours, load: loads.rest },
      bare2025: { server: bare2025, load: loads.mcp2025 },
      flat2025: { server: flat, load: loads.mcp2025 },
      mcp2025: { server: ours, load: loads.mcp2025 },
      sdkV1: { server: sdkV1, load: loads.mcp2025 },
      bare2026: { server: bare2026, load: loads.mcp2026 },
      flat2026: { server: flat, load: loads.mcp2026 },
      mcp2026: { server: ours, load: loads.mcp2026 },
      sdkV2: { server: sdkV2, load: loads.mcp2026 },
    },
    plan,
  );
}

const closeToBest = (
  name: string,
  ours: Measured,
  { bare, flat }: Readonly<Record<'bare' | 'flat', Measured>>,
  share: number,
): Target[] => [
  atLeast(`${name}, share of the flat script by processor time`, ratio(flat, ours, cpuUs), share),
  atMost(`${name}, p99 in bare limits`, ratio(ours, bare, p99Ms), 2.2),
];
