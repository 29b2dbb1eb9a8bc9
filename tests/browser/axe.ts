// What axe-core finds in a window.

import { expect } from 'bun:test';
import { readFileSync } from 'node:fs';
import type { AxeResults, ImpactValue } from 'axe-core';
import type { Frame, Page } from 'playwright-core';

declare const axe: { run(options: object): Promise<AxeResults> };
const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

export type Scheme = 'light' | 'dark';

/** What axe finds, of these weights or of any. Dark, only the colours differ from what was looked at light. */
export async function findings(
  window: Page | Frame,
  scheme: Scheme,
  weights?: readonly ImpactValue[],
): Promise<string[]> {
  // As a user of the page's own would: its policy lets nothing run.
  if (!(await window.evaluate(() => 'axe' in globalThis))) await window.evaluate(AXE);
  const { violations, passes } = await window.evaluate(
    (rules) => axe.run({ iframes: false, resultTypes: ['violations', 'passes'], ...rules }),
    scheme === 'dark' ? { runOnly: ['color-contrast'] } : {},
  );
  expect(passes.length).toBeGreaterThan(scheme === 'dark' ? 0 : 5); // axe did look
  return violations
    .filter(({ impact }) => weights?.includes(impact ?? null) ?? true)
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
}
