// Text in HTML, and content security policies for pages whose scripts and styles stand in them.

import { createHash } from 'node:crypto';

/** Returns `text` as it stands in an element or in a quoted attribute. */
export const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** Returns the hash of every inline script or style in the pages, each once, as a policy has them (CSP3 §6.7.3.3). */
export function inlineHashes(pages: readonly string[], tag: 'script' | 'style'): string {
  const inline = new RegExp(`<${tag}(?: type="module")?>(.*?)</${tag}>`, 'gs');
  const texts = pages.flatMap((page) => Array.from(page.matchAll(inline), ([, text = '']) => text));
  return [...new Set(texts)].map((text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`).join(' ');
}

/** Returns a policy by which only what stands in the pages runs, and nothing loads. */
export const inlinePolicy = (pages: readonly string[]): string =>
  [
    "default-src 'none'",
    `script-src ${inlineHashes(pages, 'script')}`,
    `style-src ${inlineHashes(pages, 'style')}`,
    'img-src data:',
    "base-uri 'none'",
  ].join('; ');

/** Returns the policy of a page of this server. The pages that it frames inherit it (`srcdoc`, CSP3 §7.8). */
export const pagePolicy = (pages: readonly string[]): string =>
  [
    inlinePolicy(pages),
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'", // no string becomes markup or code
    "trusted-types 'none'",
  ].join('; ');
