// Text in HTML, and the hashes of inline scripts and styles for a content security policy.

import { createHash } from 'node:crypto';

/** `text` as it stands in an element or in a quoted attribute. */
export const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** The hash of every inline script or style in the pages, each once, as a policy has them (CSP3 §6.7.3.3). */
export function inlineHashes(pages: readonly string[], tag: 'script' | 'style'): string {
  const inline = new RegExp(`<${tag}(?: type="module")?>(.*?)</${tag}>`, 'gs');
  const texts = pages.flatMap((page) => Array.from(page.matchAll(inline), ([, text = '']) => text));
  return [...new Set(texts)].map((text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`).join(' ');
}
