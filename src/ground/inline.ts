// Makes a hand-written page self-contained: inlines the style sheets and scripts that it uses.

import { minified } from './minify.ts';

/** File name → text. */
export type Parts = Readonly<Record<string, string>>;

const STYLESHEET = /<link rel="stylesheet" href="\.\/([\w-]+\.css)">/g;
const SCRIPT = /(<script type="module">\n)(.*?)(<\/script>)/gs;
const IMPORT = /^import (?:[^;]+ from )?'(?:\.{1,2}\/)+(?:[\w-]+\/)*([\w-]+\.js)';$/gm;
const EXPORT = /^export (?=(?:async )?(?:const|function) (\w+))/gm;

/** Throws if the page names a part that isn't given. Later scripts see all exports of earlier ones. */
export function inlineAssets(page: string, parts: Parts): string {
  const part = (name: string) => {
    const text = parts[name];
    if (text === undefined) throw new Error(`a page needs ${name}`);
    return text;
  };
  return minified(
    page
      .replace(STYLESHEET, (_, name) => `<style>\n${part(name)}</style>`)
      .replace(SCRIPT, (_, start, script, end) => start + withImports(script, part) + end),
  );
}

/** Inlines each script once, before all that import it, in a scope of its own. */
function withImports(script: string, part: (name: string) => string): string {
  const inlined = new Map<string, string>();
  const take = (text: string): string =>
    text.replace(IMPORT, (_, name) => {
      if (!inlined.has(name)) {
        inlined.set(name, ''); // in progress
        const own = take(part(name));
        inlined.delete(name);
        inlined.set(name, inScope(own));
      }
      return '';
    });
  const last = take(script);
  return [...inlined.values(), last].join('');
}

function inScope(script: string): string {
  const names = Array.from(script.matchAll(EXPORT), ([, name]) => name).join(', ');
  return `const { ${names} } = (() => {\n${script.replace(EXPORT, '')}return { ${names} };\n})();\n`;
}
