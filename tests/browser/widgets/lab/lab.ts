// A host in which the widgets can be tried: themes, widths, data that misleads, and calls that fail. Its query chooses,
// and the page lists every message between a widget and its host.

import { pagePolicy } from '../../../../src/ground/html.ts';
import { inlineAssets } from '../../../../src/pages/inline.ts';
import { createWidgets } from '../../../../src/pages/widgets/index.ts';
import { frame } from '../../../../src/pages/widgets/preview.ts';
import * as preview from '../../../../src/pages/widgets/samples.js';
import css from './lab.css' with { type: 'text' };
import html from './lab.html' with { type: 'text' };
import js from './lab-host.js' with { type: 'text' };
import { DATA_SETS, type DataSet, type SampleKey, sampleOf } from './samples.ts';

const WIDGETS = ['api-key-created', 'api-keys-list'] as const;

/**
 * What the query chooses beside widget and data: a theme (system, light, dark or sepia), the width of the widgets, and
 * whether calls work, fail, are silent or off.
 */
const DEFAULTS = { theme: 'system', width: 'auto', calls: 'work' };

const SEPIA = {
  '--color-background-primary': '#fbf3e4',
  '--color-background-secondary': '#f3e7d0',
  '--color-text-primary': '#3b2a1a',
  '--color-text-secondary': '#6b553d',
  '--color-border-primary': '#dcc9a8',
  '--font-sans': 'Georgia, serif',
  '--border-radius-md': '3px',
};

/** Of each kind that a person may meet: what the preview shows. */
const { samplesAt } = preview as unknown as { samplesAt(nowMs: number): { 'api-keys-list': { keys: SampleKey[] } } };

const page = inlineAssets(html, { 'lab.css': css, 'lab-host.js': js });

/** The text of a widget. */
export async function widgetText(wanted: string): Promise<string> {
  const content = await createWidgets(1000)
    .find(({ name }) => name === wanted)
    ?.read();
  if (content === undefined || !('text' in content)) throw new Error(`no widget ${wanted}`);
  return content.text;
}

async function labPage(query: URLSearchParams): Promise<Response> {
  const data = DATA_SETS.find((name) => name === query.get('data')) ?? 'few';
  const wanted = query.get('widget') ?? 'both';
  const shown = WIDGETS.filter((name) => wanted === 'both' || wanted === name);
  const { keys: few } = samplesAt(Date.now())['api-keys-list'];
  const samples = Object.fromEntries(shown.map((name) => [name, sampleOf(name, data, few)]));
  const rotated = sampleOf('api-key-created', data === 'widget' ? data : ('rotated' satisfies DataSet)).result;
  const setup = { chosen: { ...DEFAULTS, ...Object.fromEntries(query) }, samples, rotated, colours: SEPIA };
  const texts = await Promise.all(shown.map(widgetText));
  const filled: Record<string, string> = {
    setup: JSON.stringify(setup).replaceAll('<', '\\u003c'),
    frames: shown.map((name, index) => frame(name, texts[index] ?? '')).join(''),
  };
  return new Response(
    page.replace(/"?\{(setup|frames)\}"?/g, (_, mark) => filled[mark] ?? ''),
    {
      headers: { 'Content-Type': 'text/html; charset=utf-8', 'Content-Security-Policy': pagePolicy([page, ...texts]) },
    },
  );
}

/** Serves the page on a port of its own. */
export function serveLab() {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: ({ url }) => labPage(new URL(url).searchParams),
  });
  return { url: server.url.origin, stop: () => server.stop(true) };
}
