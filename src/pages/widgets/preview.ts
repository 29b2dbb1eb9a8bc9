// The preview page: both widgets with sample data, light and dark, in sandboxed frames and a chat app that it plays.

import { escaped, inlinePolicy, pagePolicy } from '../../ground/html.ts';
import { documentOf } from '../document.ts';
import { createWidgets } from './index.ts';

export function createPreview(lagMaxMs: number): { readonly html: string; readonly policy: string } {
  const widgets = createWidgets(lagMaxMs).flatMap(({ name, read }) => {
    const content = read();
    return 'text' in content ? [{ name, text: content.text }] : [];
  });
  const body = `<div class="stack">
<header>
<h1>Widget preview</h1>
<p>Sample data in the role of a chat app. Nothing here reaches a real key.</p>
</header>
<main class="stack"></main>
<template><section class="line">${widgets.map(({ name, text }) => frame(name, text)).join('\n')}</section></template>
</div>`;
  const html = documentOf({ title: 'Widget preview', script: 'preview-host.js', isPage: true, body });
  return { html, policy: pagePolicy([html, ...widgets.map(({ text }) => text)]) };
}

/** The markup of a frame with a policy of its own. Scripts can't make one: a page's policy lets no string become markup. */
export function frame(name: string, text: string): string {
  const meta = `<meta http-equiv="Content-Security-Policy" content="${inlinePolicy([text])}">`;
  const page = escaped(text.replace('<meta charset="utf-8">', (charset) => charset + meta));
  const rights = 'sandbox="allow-scripts" allow="clipboard-write"';
  return `<iframe name="${name}" title="${name}" class="card flush" ${rights} srcdoc="${page}"></iframe>`;
}
