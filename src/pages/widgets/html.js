// Descriptions of elements, for draw(): html`<p class="muted">${text}</p>`. What stands in a hole is never markup.
//
// A hole is a whole attribute (`onclick=${f}`), a part of one in quotes, or a child: text, a description, or a list of
// them; null, undefined and false are left out. `at` names an element among its siblings (see draw.js). Elements without
// children end with `/>`; white space with a line break in it is none at the edges of text.

const HOLE = '\u0000';
const TOKEN = /<\/[\w-]+>|<([\w-]+)((?:\s+[\w-]+(?:=(?:"[^"]*"|\0))?)*)\s*(\/?)>|\0|[^<\0]+/g;
const ATTRIBUTE = /([\w-]+)(?:=(?:"([^"]*)"|\0))?/g;
const parsed = new WeakMap(); // the strings of a template → a function of its values

export function html(strings, ...values) {
  if (!parsed.has(strings)) parsed.set(strings, parse(strings.join(HOLE)));
  const roots = parsed.get(strings)(values);
  return roots.length === 1 ? roots[0] : roots;
}

export const h = (tag, properties, ...children) => ({
  tag,
  at: properties.at,
  properties,
  children: children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
});

function parse(template) {
  const open = [{ children: [] }];
  let holes = 0;
  for (const [token, tag, attributes, isEmpty] of template.matchAll(TOKEN)) {
    const { children } = open.at(-1);
    if (token === HOLE) {
      const hole = holes++;
      children.push((values) => values[hole]);
    } else if (tag !== undefined) {
      const element = { children: [] };
      const read = Array.from(attributes.matchAll(ATTRIBUTE), ([text, name, quoted]) => {
        const first = holes;
        holes += text.split(HOLE).length - 1;
        return [name, attributeValue(text, quoted, first)];
      });
      children.push((values) =>
        h(tag, Object.fromEntries(read.map(([name, value]) => [name, value(values)])), filledIn(element, values)),
      );
      if (!isEmpty) open.push(element);
    } else if (token.startsWith('</')) open.pop();
    else if (/[^\s]/.test(token) || !token.includes('\n')) {
      const text = token.replace(/^\s*\n\s*|\s*\n\s*$/g, '').replace(/\s*\n\s*/g, ' ');
      children.push(() => text);
    }
  }
  return (values) => filledIn(open[0], values);
}

const filledIn = ({ children }, values) => children.map((child) => child(values));

/** The value of an attribute whose holes begin with `first`. */
function attributeValue(text, quoted, first) {
  if (quoted === undefined) return text.endsWith(HOLE) ? (values) => values[first] : () => true;
  const [start, ...rest] = quoted.split(HOLE);
  return (values) => rest.reduce((whole, part, index) => whole + values[first + index] + part, start);
}
