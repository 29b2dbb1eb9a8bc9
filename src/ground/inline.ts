// Makes a hand-written page self-contained: inlines the style sheets and scripts that it uses.

import { minified, minifiedScript } from './minify.ts';

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

/** Scripts that a page loads later. */
export interface Fragment {
  /** A module whose default export takes an object with `names`, and returns what the main script exports. */
  readonly script: string;
  /** What it uses of the page's scripts. */
  readonly names: readonly string[];
}

/** Inlines the scripts of a fragment, which begins at `name` of `main`. What isn't among the parts is the page's. */
export function inlineFragment(main: string, name: string, parts: Parts): Fragment {
  const names = new Set<string>();
  const script = withImports(`import { ${name} } from './${main}';\n`, (file, statement) => {
    const own = parts[file];
    if (own !== undefined) return own;
    const [, imported = ''] = /\{([^}]+)\}/.exec(statement) ?? [];
    for (const used of imported.split(',')) if (used.trim() !== '') names.add(used.trim());
    return null;
  });
  const used = [...names].sort();
  const text = `export default (shared) => {\nconst { ${used.join(', ')} } = shared;\n${script}return ${name};\n};\n`;
  return { script: minifiedScript(text), names: used };
}

/** Inlines each script once, before all that import it, in a scope of its own. `part` returns null to leave one out. */
function withImports(script: string, part: (name: string, statement: string) => string | null): string {
  const inlined = new Map<string, string>();
  const take = (text: string): string =>
    text.replace(IMPORT, (statement, name) => {
      const found = inlined.has(name) ? null : part(name, statement);
      if (found !== null) {
        inlined.set(name, ''); // in progress
        const own = take(found);
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
