// Makes a hand-written page self-contained: inlines the style sheets and scripts that it uses.

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
      if (found !== null) inlined.set(name, inScope(take(found)));
      return '';
    });
  const last = take(script);
  return [...inlined.values(), last].join('');
}

function inScope(script: string): string {
  const names = Array.from(script.matchAll(EXPORT), ([, name]) => name).join(', ');
  return `const { ${names} } = (() => {\n${script.replace(EXPORT, '')}return { ${names} };\n})();\n`;
}

// Removes comments and white space that mean nothing from the inline style sheets and scripts of a page. Nothing is
// renamed: who reads the page sees the names of the sources.

const STYLE = /(?<=<style>).*?(?=<\/style>)/gs;
const WHOLE_SCRIPT = /(?<=<script type="module">).*?(?=<\/script>)/gs;

export const minified = (page: string): string =>
  page.replace(/^\s+/gm, '').replace(STYLE, minifiedStyle).replace(WHOLE_SCRIPT, minifiedScript);

const minifiedStyle = (style: string): string =>
  style
    .replace(/\/\*.*?\*\//gs, '')
    .replace(/\s+/g, ' ')
    .replace(/ ?([{};,>/]) ?/g, '$1')
    .replace(/(?<=[{;][\w-]+): /g, ':')
    .replaceAll(';}', '}')
    .replace(QUOTES, '$1');

const TOKEN = /\/\*.*?\*\/|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\s+|[\w$]+|./sy;
const LINE_COMMENT = /\/\/[^\n]*/y;
const REGULAR_EXPRESSION = /\/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\[])+\/\w*/y;
/** The text of a template, up to its end or the next hole. */
const TEMPLATE = /(?:\\.|\$(?!\{)|[^\\`$])*(?:`|\$\{)/sy;
/** White space beside the tags and holes of a template of elements (pages/widgets/draw.js), which means nothing there. */
const BREAKS = /(?<=>)\n|\n(?=<)|(?<=^\})\n(?=\$\{$)| (?=\/>)/g;
/** The quotes of a value that is one word, in a tag of such a template and in a selector. */
const QUOTES = /(?<=[\s[][\w-]+=)"([\w-]+)"(?=[\s>\]])/g;
const LAST_CHARS = 7; // one more than `return` has
/** Code after which a slash begins a regular expression, not a division. */
const BEFORE_EXPRESSION = /(?:^|[=(,:[!&|?{};>]|\breturn)$/;

/**
 * Minifies a script with a semicolon after each statement, and without loops that have no body. Strings, templates and
 * regular expressions stay as they are.
 */
export function minifiedScript(script: string): string {
  const open: string[] = []; // the braces around a place: of code, or of a template's hole
  const taken: string[] = [];
  let [at, last, gap] = [0, '', '']; // `last`: the end of what is taken
  function take(pattern: RegExp): string {
    pattern.lastIndex = at;
    const [token = ''] = pattern.exec(script) ?? [];
    at += token.length;
    return token;
  }
  function next(): string {
    if (script.startsWith('//', at)) return take(LINE_COMMENT);
    const isExpression = script[at] === '/' && script[at + 1] !== '*' && BEFORE_EXPRESSION.test(last);
    const token = take(isExpression ? REGULAR_EXPRESSION : TOKEN);
    if (token === '{') open.push(token);
    const isTemplate = token === '`' || (token === '}' && open.pop() === '${');
    if (!isTemplate) return /^\d/.test(token) ? token.replaceAll('_', '') : token;
    const words = take(TEMPLATE);
    if (words.endsWith('${')) open.push('${');
    return (token + words).replace(QUOTES, '$1').replace(BREAKS, '');
  }
  const goesOn = createGoesOn(open);
  for (let token = next(); token !== ''; token = next()) {
    if (/^(?:\s|\/[/*])/.test(token)) gap += token;
    else if (goesOn(token)) {
      taken.push(taken.pop()?.replace(/;$/, ',') ?? '');
      [last, gap] = [',', ''];
    } else {
      if (isNeedless(last, token)) taken.push(taken.pop()?.slice(0, -1) ?? '');
      if (token === '=' && script[at] === '>') bare(taken);
      const text = kept(gap, last.at(-1) ?? '', token.at(0) ?? '') + token;
      taken.push(text);
      last = (last + text).slice(-LAST_CHARS);
      gap = '';
    }
  }
  if (at < script.length || open.length > 0) throw new Error('a script has something that does not end');
  return taken.join('');
}

/**
 * Creates the function that takes each token of a script, and returns whether it is a `const` right after the statement of
 * another one: a comma says the same. `open`: the braces around the token.
 */
function createGoesOn(open: readonly string[]): (token: string) => boolean {
  let places: readonly { parentheses: number; isConst: boolean; wasConst: boolean }[] = []; // one within each brace
  return (token) => {
    const outer = places.slice(0, open.length + 1);
    const place = outer[open.length] ?? { parentheses: 0, isConst: false, wasConst: false };
    places = [...outer.slice(0, open.length), place];
    if (token === '(') place.parentheses += 1;
    if (token === ')') place.parentheses -= 1;
    const isStatement = place.parentheses === 0; // else it may be the head of a loop
    const { isConst, wasConst } = place;
    place.wasConst = isStatement && token === ';' && isConst;
    if (isStatement && token === ';') place.isConst = false;
    if (isStatement && token === 'const') place.isConst = true;
    return wasConst && token === 'const';
  };
}

/** Takes the parentheses off the only parameter of an arrow function, which is at the end of what is taken. */
function bare(taken: string[]): void {
  const [before = '', opening, name = '', closing] = taken.slice(-4);
  if (opening !== '(' || closing !== ')' || !/^[\w$]+$/.test(name)) return;
  taken.splice(-3, 3, (/[\w$]$/.test(before) ? ' ' : '') + name);
}

/** Returns whether what is taken ends with a semicolon or comma that means nothing before a token. Lists have no holes. */
const isNeedless = (last: string, token: string): boolean =>
  (last.endsWith(';') && token === '}') || (last.endsWith(',') && /^[)\]}]/.test(token));

/** Returns what must stay of the white space and comments between two characters. */
function kept(gap: string, before: string, after: string): string {
  if (gap === '') return '';
  if (gap.includes('\n') && !/[{}([,;=>&|?:]/.test(before) && !/[)\]},;.?:=&|]/.test(after)) return '\n';
  return (/[\w$]/.test(before) && /[\w$]/.test(after)) || (before === after && /[+-]/.test(after)) ? ' ' : '';
}
