// A host in which the widgets can be tried: themes, widths, data that misleads, and calls that fail. Its query chooses,
// and the page lists every message between a widget and its host.

import { pagePolicy } from '../../../../src/ground/html.ts';
import { inlineAssets } from '../../../../src/ground/inline.ts';
import { createWidgets } from '../../../../src/pages/widgets/index.ts';
import { frame } from '../../../../src/pages/widgets/preview.ts';
import host from './host.js' with { type: 'text' };
import css from './lab.css' with { type: 'text' };
import html from './lab.html' with { type: 'text' };
import js from './lab-host.js' with { type: 'text' };
import { DATA_SETS, type DataSet, SAMPLES_AT_MS, sampleOf } from './samples.ts';

const WIDGETS = ['api-key-created', 'api-keys-list'] as const;

/** Query parameter → its choices; the first is the default. */
const CHOICES = {
  widget: ['both', ...WIDGETS],
  theme: ['system', 'light', 'dark', 'sepia'],
  width: ['auto', '320', '480', '720'],
  data: DATA_SETS,
  calls: ['work', 'fail', 'silent', 'off'],
} as const;
const THEMES = CHOICES.theme
  .map((theme) => `<a href="" data-param="theme" data-value="${theme}">${theme}</a>`)
  .join('');

const SEPIA = {
  '--color-background-primary': '#fbf3e4',
  '--color-background-secondary': '#f3e7d0',
  '--color-text-primary': '#3b2a1a',
  '--color-text-secondary': '#6b553d',
  '--color-border-primary': '#dcc9a8',
  '--font-sans': 'Georgia, serif',
  '--border-radius-md': '3px',
};

const page = inlineAssets(html, { 'lab.css': css, 'lab-host.js': js, 'host.js': host });

/** The text of a widget. */
export function widgetText(wanted: string): string {
  const content = createWidgets(1000)
    .find(({ name }) => name === wanted)
    ?.read();
  if (content === undefined || !('text' in content)) throw new Error(`no widget ${wanted}`);
  return content.text;
}

function labPage(query: URLSearchParams): Response {
  const data = CHOICES.data.find((name) => name === query.get('data')) ?? 'few';
  const wanted = query.get('widget') ?? 'both';
  const shown = WIDGETS.filter((name) => wanted === 'both' || wanted === name);
  const samples = Object.fromEntries(shown.map((name) => [name, sampleOf(name, data)]));
  const defaults = Object.fromEntries(Object.entries(CHOICES).map(([param, choices]) => [param, choices[0]]));
  const rotated = sampleOf('api-key-created', data === 'widget' ? data : ('rotated' satisfies DataSet)).result;
  const setup = { defaults, samples, rotated, madeAtMs: SAMPLES_AT_MS, colours: SEPIA };
  const texts = shown.map(widgetText);
  const frames = shown.map(
    (name, index) =>
      `<figure><figcaption>${name} <output></output></figcaption>${frame(name, texts[index] ?? '')}</figure>`,
  );
  const filled: Record<string, string> = {
    setup: JSON.stringify(setup).replaceAll('<', '\\u003c'),
    controls: THEMES,
    frames: frames.join(''),
  };
  return new Response(
    page.replace(/"?\{(setup|controls|frames)\}"?/g, (_, mark) => filled[mark] ?? ''),
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
