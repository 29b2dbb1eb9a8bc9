// A hand-written page made self-contained: the files it links to and imports are put in, and what only readers of the
// source need (comments, indentation) is left out. The source also works as it is, from any static file server.

/** File name → text. */
export type Parts = Readonly<Record<string, string>>;

const STYLESHEET = /<link rel="stylesheet" href="\.\/([\w-]+\.css)">/g;
const IMPORT = /^import (?:[^;]+ from )?'\.\/([\w-]+\.js)';$/gm;

/** Throws when the page names a part that isn't given: found out at the start, not by a browser. */
export function selfContained(page: string, parts: Parts): string {
  const part = (name: string) => {
    const text = parts[name];
    if (text === undefined) throw new Error(`a page needs ${name}`);
    return text;
  };
  return lean(
    page
      .replace(STYLESHEET, (_, name) => `<style>\n${part(name)}</style>`)
      .replace(IMPORT, (_, name) => part(name).replace(/^export /gm, '')),
  );
}

/** Whole-line comments, blank lines and indentation gone. For sources that have no text over several lines. */
const lean = (page: string) =>
  page
    .replace(/<!--.*?-->|^\s*\/\*.*?\*\/$/gms, '')
    .replace(/^\s*\/\/.*$/gm, '')
    .replace(/^\s+/gm, '');

/** The text of every inline script or style, as CSP hashes see it (CSP3 §6.7.3.2). */
export const inlineTexts = (page: string, tag: 'script' | 'style'): string[] =>
  Array.from(page.matchAll(new RegExp(`<${tag}(?: type="module")?>(.*?)</${tag}>`, 'gs')), ([, text = '']) => text);
