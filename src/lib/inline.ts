// Makes a hand-written page self-contained: puts in the files that it links to and imports, and leaves out comments and
// indentation. The source also works as it is, from any static file server.

/** File name → text. */
export type Parts = Readonly<Record<string, string>>;

const STYLESHEET = /<link rel="stylesheet" href="\.{1,2}\/(?:widgets\/)?([\w-]+\.css)">/g;
const IMPORT = /^import (?:[^;]+ from )?'\.{1,2}\/(?:widgets\/)?([\w-]+\.js)';$/gm;

/**
 * Throws when the page names a part that isn't given. A script that several import is put in once, before the first of
 * them. All share one scope, so no two may declare the same name.
 */
export function inlineAssets(page: string, parts: Parts): string {
  const inlined = new Set<string>();
  const part = (name: string) => {
    const text = parts[name];
    if (text === undefined) throw new Error(`a page needs ${name}`);
    return text;
  };
  const withImports = (script: string): string =>
    script.replace(IMPORT, (_, name) => {
      if (inlined.has(name)) return '';
      inlined.add(name);
      return withImports(part(name)).replace(/^export /gm, '');
    });
  return minify(withImports(page.replace(STYLESHEET, (_, name) => `<style>\n${part(name)}</style>`)));
}

/** Removes whole-line comments, blank lines and indentation. For sources that have no text over several lines. */
const minify = (page: string) =>
  page
    .replace(/<!--.*?-->|^\s*\/\*.*?\*\/$/gms, '')
    .replace(/^\s*\/\/.*$/gm, '')
    .replace(/^\s+/gm, '');
