// Removes comments and white space that mean nothing from the inline style sheets and scripts of a page. Nothing is
// renamed: who reads the page sees the names of the sources.

const STYLE = /(?<=<style>).*?(?=<\/style>)/gs;
const SCRIPT = /(?<=<script type="module">).*?(?=<\/script>)/gs;

export const minified = (page: string): string =>
  page.replace(/^\s+/gm, '').replace(STYLE, minifiedStyle).replace(SCRIPT, minifiedScript);

const minifiedStyle = (style: string): string =>
  style
    .replace(/\/\*.*?\*\//gs, '')
    .replace(/\s+/g, ' ')
    .replace(/ ?([{};,]) ?/g, '$1')
    .replace(/(?<=[{;][\w-]+): /g, ':')
    .replaceAll(';}', '}');

const TOKEN = /\/\*.*?\*\/|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\s+|[\w$]+|./sy;
const LINE_COMMENT = /\/\/[^\n]*/y;
const REGULAR_EXPRESSION = /\/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\[])+\/\w*/y;
/** The text of a template, up to its end or the next hole. */
const TEMPLATE = /(?:\\.|\$(?!\{)|[^\\`$])*(?:`|\$\{)/sy;
/** Code after which a slash begins a regular expression, not a division. */
const LAST_CHARS = 7; // one more than `return` has
const BEFORE_EXPRESSION = /(?:^|[=(,:[!&|?{};>]|\breturn)$/;

/** Minifies a script with a semicolon after each statement. Strings, templates and regular expressions stay as they are. */
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
    if (!isTemplate) return token;
    const words = take(TEMPLATE);
    if (words.endsWith('${')) open.push('${');
    return token + words;
  }
  for (let token = next(); token !== ''; token = next()) {
    if (/^(?:\s|\/[/*])/.test(token)) gap += token;
    else {
      const text = kept(gap, last.at(-1) ?? '', token.at(0) ?? '') + token;
      taken.push(text);
      last = (last + text).slice(-LAST_CHARS);
      gap = '';
    }
  }
  if (at < script.length || open.length > 0) throw new Error('a script has something that does not end');
  return taken.join('');
}

/** Returns what must stay of the white space and comments between two characters. */
function kept(gap: string, before: string, after: string): string {
  if (gap === '') return '';
  if (gap.includes('\n') && !/[{([,;=>&|?:]/.test(before) && !/[)\]},;.?:=&|]/.test(after)) return '\n';
  return (/[\w$]/.test(before) && /[\w$]/.test(after)) || (before === after && /[+-]/.test(after)) ? ' ' : '';
}
