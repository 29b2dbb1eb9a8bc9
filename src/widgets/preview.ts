// The preview page: both widgets in sandboxed frames, hosted by the page's own script with sample data.

import { inlineAssets } from '../lib/inline.ts';
import { err, ok, type Result } from '../lib/result.ts';
import type { InputIssue } from '../problem.ts';
import { contentPolicy, frame, framedWidget } from './frame.ts';
import host from './host.js' with { type: 'text' };
import css from './preview.css' with { type: 'text' };
import html from './preview.html' with { type: 'text' };
import js from './preview-host.js' with { type: 'text' };
import { DATA_SETS, SAMPLES_AT_MS, sampleOf } from './samples.ts';

const WIDGETS = ['api-key-created', 'api-keys-list'] as const;

/**
 * Query parameter → its choices; the first is the default. Only `widget` and `data` make another document, the others
 * are for its script: the few documents are made once and shared by all responses.
 */
const CHOICES = {
  widget: ['both', ...WIDGETS],
  theme: ['system', 'light', 'dark', 'sepia'],
  width: ['auto', '320', '480', '720'],
  data: DATA_SETS,
  calls: ['work', 'fail', 'silent', 'off'],
} as const;
type Param = keyof typeof CHOICES;
export type Chosen = { readonly [P in Param]: (typeof CHOICES)[P][number] };

const LABELS: Readonly<Record<Param, string>> = {
  widget: 'Widget',
  theme: 'Theme',
  width: 'Width',
  data: 'Data',
  calls: 'Tool calls',
};

const TOOLS = { 'api-key-created': 'create_api_key or rotate_api_key', 'api-keys-list': 'list_api_keys' } as const;

const SEPIA = {
  '--color-background-primary': '#fbf3e4',
  '--color-background-secondary': '#f3e7d0',
  '--color-text-primary': '#3b2a1a',
  '--color-text-secondary': '#6b553d',
  '--color-border-primary': '#dcc9a8',
  '--font-sans': 'Georgia, serif',
  '--border-radius-md': '3px',
};

export function parseChoices(query: URLSearchParams): Result<Chosen, InputIssue[]> {
  const issues: InputIssue[] = [];
  const chosen: Record<string, string> = {};
  for (const [param, choices] of Object.entries(CHOICES)) {
    const value = query.get(param) ?? choices[0];
    if (choices.some((choice) => choice === value)) chosen[param] = value;
    else issues.push({ path: param, message: `Expected one of: ${choices.join(', ')}` });
  }
  return issues.length > 0 ? err(issues) : ok(chosen as unknown as Chosen); // every value is one of its choices
}

export interface Preview {
  /** The Content-Security-Policy of every page: no hash depends on the choices. */
  readonly policy: string;
  readonly page: (chosen: Chosen) => Blob;
}

export function createPreview(): Preview {
  const page = inlineAssets(html, { 'preview.css': css, 'preview-host.js': js, 'host.js': host });
  const widgets = new Map(WIDGETS.map((name) => [name, framedWidget(name)]));
  const policy = contentPolicy([page, ...widgets.values()]);

  const pages = new Map<string, Blob>();

  function render(widget: Chosen['widget'], data: Chosen['data']): string {
    const shown = WIDGETS.filter((name) => widget === 'both' || widget === name);
    const samples = Object.fromEntries(shown.map((name) => [name, sampleOf(name, data)]));
    const defaults = Object.fromEntries(Object.entries(CHOICES).map(([param, choices]) => [param, choices[0]]));
    const rotated = sampleOf('api-key-created', data === 'widget' ? data : 'rotated').result;
    const setup = { defaults, samples, rotated, madeAtMs: SAMPLES_AT_MS, colours: SEPIA };
    const filled: Record<string, string> = {
      setup: JSON.stringify(setup).replaceAll('<', '\\u003c'),
      controls: Object.entries(CHOICES)
        .map(([param, choices]) => group(param as Param, choices))
        .join(''),
      frames: shown.map((name) => figure(name, widgets.get(name) ?? '')).join(''),
    };
    return page.replace(/"?\{(setup|controls|frames)\}"?/g, (_, mark) => filled[mark] ?? '');
  }

  return {
    policy,
    page({ widget, data }) {
      const name = `${widget} ${data}`;
      const made = pages.get(name) ?? new Blob([render(widget, data)]);
      pages.set(name, made);
      return made;
    },
  };
}

/** A row of links; the page's script adds the rest of the query and marks the chosen ones. */
const group = (param: Param, choices: readonly string[]) =>
  `<div role="group" aria-label="${LABELS[param]}"><span aria-hidden="true">${LABELS[param]}</span>${choices
    .map((choice) => `<a href="?${param}=${choice}" data-param="${param}" data-value="${choice}">${choice}</a>`)
    .join('')}</div>`;

const figure = (name: (typeof WIDGETS)[number], page: string) =>
  `<figure><figcaption><b>${name}</b> shows ${TOOLS[name]} <output></output></figcaption>
${frame(name, name, page)}</figure>`;
