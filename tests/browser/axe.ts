// What axe-core finds in a window.

import { expect } from 'bun:test';
import { readFileSync } from 'node:fs';
import type { AxeResults, ImpactValue } from 'axe-core';
import type { Frame, Page } from 'playwright-core';

declare const axe: { run(options: object): Promise<AxeResults> };
const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

export type Scheme = 'light' | 'dark';

/** What is scrolled away or not drawn yet has no colours that could be judged. */
const UNROLLED = '.row { content-visibility: visible } .keys { max-height: none !important }';

/**
 * What axe finds, of these weights or of any. A contrast that it can't judge is a finding too: words in the very colour of
 * what is behind them are *incomplete* to it, and no violation. Dark, only the colours differ from what was looked at light.
 */
export async function findings(
  window: Page | Frame,
  scheme: Scheme,
  weights?: readonly ImpactValue[],
): Promise<string[]> {
  // As a user of the page's own would: its policy lets nothing run.
  if (!(await window.evaluate(() => 'axe' in globalThis))) await window.evaluate(AXE);
  const { violations, incomplete, passes } = await window.evaluate(
    async ({ rules, unrolled }) => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(unrolled);
      document.adoptedStyleSheets = [sheet];
      const found = await axe.run({ iframes: false, resultTypes: ['violations', 'incomplete', 'passes'], ...rules });
      // Axe thinks some elements covered whose text is longer than its box: the browser knows what is on top.
      const isOnTop = (selector: string) => {
        const element = document.querySelector(selector);
        element?.scrollIntoView({ block: 'nearest' });
        const { x = 0, y = 0, width = 0, height = 0 } = element?.getBoundingClientRect() ?? {};
        const top = document.elementFromPoint(x + width / 2, y + height / 2);
        return element?.contains(top) ?? false;
      };
      for (const finding of found.incomplete) {
        finding.nodes = finding.nodes.filter(
          ({ any, target }) => any[0]?.data?.messageKey !== 'bgOverlap' || !isOnTop(String(target[0])),
        );
      }
      document.adoptedStyleSheets = [];
      return found;
    },
    { rules: scheme === 'dark' ? { runOnly: ['color-contrast'] } : {}, unrolled: UNROLLED },
  );
  const faint = await window.evaluate(faintFields);
  expect(passes.length).toBeGreaterThan(scheme === 'dark' ? 0 : 5); // axe did look
  const unjudged = incomplete.filter(({ id, nodes }) => id === 'color-contrast' && nodes.length > 0);
  const found = [...violations, ...unjudged]
    .filter(({ impact }) => weights?.includes(impact ?? null) ?? true)
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html, any }) => `${html} (${any[0]?.message})`).join(' ')}`);
  return [...found, ...faint];
}

/** Returns the fields whose border can hardly be seen (WCAG 2.2, 1.4.11), at which axe doesn't look. Runs in the window. */
function faintFields(): string[] {
  const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const luminanceOf = (color: string) => {
    if (context === null) return 0;
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [r = 0, g = 0, b = 0] = [...context.getImageData(0, 0, 1, 1).data].map((byte) => {
      const part = byte / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const fields = document.querySelectorAll(
    'input:not([type="checkbox"], [type="radio"], [type="hidden"]), select, textarea',
  );
  return [...fields].flatMap((field) => {
    const { borderTopColor, backgroundColor } = getComputedStyle(field);
    const [dark = 0, light = 0] = [borderTopColor, backgroundColor].map(luminanceOf).sort((a, b) => a - b);
    const contrast = (light + 0.05) / (dark + 0.05);
    return contrast < 3 ? [`border ${contrast.toFixed(1)}: ${field.outerHTML}`] : [];
  });
}
