// One key, one tool, over REST and both eras of MCP: against the bare limit and the SDK's own servers.

import { buildDatabase } from '../database.ts';
import { mcp2025GetData, mcp2026GetData, responseTo, restGetData } from '../loads.ts';
import { cpuUs, joined, measure, p99Ms, perSecond, ratio } from '../measure.ts';
import { startBare, startBatchedBare, startIdeal, startOther, startOurs } from '../ours.ts';
import type { Plan } from '../plan.ts';
import { atLeast, atMost, type Section } from '../report.ts';

/** Two processes of each server, one after the other: two of the same kind may differ by some percent all along. */
export const hotPath: Section = async (plan) => {
  const measured = joined(await measureOnce(plan), await measureOnce(plan));
  return {
    rows: [
      { name: "bare limit, get_data's REST response", measured: measured.bareRest },
      { name: 'the same with batching', bare: measured.bareRest, measured: measured.batchedRest },
      { name: 'ideal script, REST', bare: measured.bareRest, measured: measured.idealRest },
      { name: '**get_data over REST**', bare: measured.bareRest, measured: measured.rest },
      { name: "bare limit, get_data's MCP 2025-11-25 response", measured: measured.bare2025 },
      { name: 'ideal script, MCP 2025-11-25', bare: measured.bare2025, measured: measured.ideal2025 },
      { name: '**get_data over MCP 2025-11-25**', bare: measured.bare2025, measured: measured.mcp2025 },
      { name: 'SDK v1, stateless, the same key check', bare: measured.bare2025, measured: measured.sdkV1 },
      { name: "bare limit, get_data's MCP 2026-07-28 response", measured: measured.bare2026 },
      { name: '**get_data over MCP 2026-07-28**', bare: measured.bare2026, measured: measured.mcp2026 },
      { name: 'SDK v2, stateless, the same key check', bare: measured.bare2026, measured: measured.sdkV2 },
    ],
    targets: [
      atLeast(
        "get_data over REST, the ideal script's processor time",
        ratio(measured.idealRest, measured.rest, cpuUs),
        0.87,
      ),
      atLeast(
        "get_data over MCP 2025-11-25, the ideal script's processor time",
        ratio(measured.ideal2025, measured.mcp2025, cpuUs),
        0.87,
      ),
      atMost('get_data over REST, p99 in bare limits', ratio(measured.rest, measured.bareRest, p99Ms), 2.2),
      atMost(
        'get_data over MCP 2025-11-25, p99 in bare limits',
        ratio(measured.mcp2025, measured.bare2025, p99Ms),
        2.2,
      ),
      atMost(
        'get_data over MCP 2026-07-28, p99 in bare limits',
        ratio(measured.mcp2026, measured.bare2026, p99Ms),
        2.2,
      ),
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
  await using bareRest = await startBare(await responseTo(ours, loads.rest));
  await using bare2025 = await startBare(await responseTo(ours, loads.mcp2025));
  await using bare2026 = await startBare(await responseTo(ours, loads.mcp2026));
  await using idealRest = await startIdeal(await responseTo(ours, loads.rest), key);
  await using ideal2025 = await startIdeal(await responseTo(ours, loads.mcp2025), key);
  await using batchedRest = await startBatchedBare(await responseTo(ours, loads.rest));
  await using sdkV1 = await startOther('sdk-v1', path);
  await using sdkV2 = await startOther('sdk-v2', path);
  await responseTo(sdkV1, loads.mcp2025);
  await responseTo(sdkV2, loads.mcp2026);

  // Awaited here: the servers end with this function.
  return await measure(
    {
      bareRest: { server: bareRest, load: loads.rest },
      batchedRest: { server: batchedRest, load: loads.rest },
      idealRest: { server: idealRest, load: loads.rest },
      rest: { server: ours, load: loads.rest },
      bare2025: { server: bare2025, load: loads.mcp2025 },
      ideal2025: { server: ideal2025, load: loads.mcp2025 },
      mcp2025: { server: ours, load: loads.mcp2025 },
      sdkV1: { server: sdkV1, load: loads.mcp2025 },
      bare2026: { server: bare2026, load: loads.mcp2026 },
      mcp2026: { server: ours, load: loads.mcp2026 },
      sdkV2: { server: sdkV2, load: loads.mcp2026 },
    },
    plan,
  );
}
