// Escapes text for HTML, and builds content security policies for pages with inline scripts and styles.

import { createHash } from 'node:crypto';

/** Escapes text for an element or a quoted attribute. */
export const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** Returns the hash sources of all distinct inline scripts or styles in the pages (CSP3 §6.7.3.3). */
export function inlineHashes(pages: readonly string[], tag: 'script' | 'style'): string {
  const inline = new RegExp(`<${tag}(?: type="module")?>(.*?)</${tag}>`, 'gs');
  const texts = pages.flatMap((page) => Array.from(page.matchAll(inline), ([, text = '']) => text));
  return [...new Set(texts)].map((text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`).join(' ');
}

/** Returns a policy that lets only the pages' inline code run, and loads nothing. */
export const inlinePolicy = (pages: readonly string[]): string =>
  [
    "default-src 'none'",
    `script-src ${inlineHashes(pages, 'script')}`,
    `style-src ${inlineHashes(pages, 'style')}`,
    'img-src data:',
    "base-uri 'none'",
  ].join('; ');

/** Returns the policy for a page of this server. Pages that it frames inherit it (`srcdoc`, CSP3 §7.8). */
export const pagePolicy = (pages: readonly string[]): string =>
  [
    inlinePolicy(pages),
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'", // no string becomes markup or code
    "trusted-types 'none'",
  ].join('; ');
