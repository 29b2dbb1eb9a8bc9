// The page as it is described. html`<p class="muted">${text}</p>` describes an element; redraw() makes the page as its
// view describes it, and touches nothing that is so already: what a person typed, opened, selected or scrolled stays.
//
// What stands in a hole is never markup. A hole is a whole attribute (`onclick=${f}`), a part of one in quotes, or a
// child: text, a description, or a list of them; null, undefined and false are left out. `at` names an element among its
// siblings: it stays itself when others come, go, or change places, and the focus finds it again. Elements without
// children end with `/>`; white space with a line break in it is none at the edges of text.

const HOLE = '\u0000';
const TOKEN = /<\/[\w-]+>|<([\w-]+)((?:\s+[\w-]+(?:=(?:"[^"]*"|\0))?)*)\s*(\/?)>|\0|[^<\0]+/g;
const ATTRIBUTE = /([\w-]+)(?:=(?:"([^"]*)"|\0))?/g;
const parsed = new WeakMap(); // strings of a template → what makes its elements, given what takes the next value

export function html(strings, ...values) {
  if (!parsed.has(strings)) parsed.set(strings, parse(strings.join(HOLE)));
  const left = values.values();
  const roots = all(parsed.get(strings), () => left.next().value);
  return roots.length === 1 ? roots[0] : roots;
}

const all = (makers, take) => makers.map((make) => make(take));

export const h = (tag, properties, ...children) => ({
  tag,
  properties,
  children: children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
});

function parse(template) {
  const open = [[]]; // what makes the children of each element that is open
  for (const [token, tag, attributes, isEmpty] of template.matchAll(TOKEN)) {
    const siblings = open.at(-1);
    if (token === HOLE) siblings.push((take) => take());
    else if (tag !== undefined) {
      const children = [];
      const properties = Array.from(attributes.matchAll(ATTRIBUTE), attribute);
      siblings.push((take) => h(tag, Object.fromEntries(all(properties, take)), all(children, take)));
      if (!isEmpty) open.push(children);
    } else if (token.startsWith('</')) open.pop();
    else if (/\S/.test(token) || !token.includes('\n')) {
      const text = token.replace(/^\s*\n\s*|\s*\n\s*$/g, '').replace(/\s*\n\s*/g, ' ');
      siblings.push(() => text);
    }
  }
  return open[0];
}

function attribute([text, name, quoted]) {
  if (quoted !== undefined) return (take) => [name, quoted.replaceAll(HOLE, take)];
  return (take) => [name, text.endsWith(HOLE) ? take() : true];
}

let view = () => [];

/** Shows `shown()` in the page from now on. */
export function mount(shown) {
  view = shown;
  redraw();
}

/** Changes what the view follows from. */
export function change(state, changed) {
  Object.assign(state, changed);
  redraw();
}

/** Draws all again. The focus is never lost: if what had it is gone, what it stood in gets it, if that can. */
export function redraw() {
  const root = document.getElementById('root');
  const held = document.activeElement;
  const places = [];
  for (let place = held; place !== null && root.contains(place); place = place.parentElement) {
    if (place.dataset?.at !== undefined) places.push(place.dataset.at);
  }
  fill(root, h('', {}, view()).children);
  if (places.length > 0 && document.activeElement !== held) places.some(focusOn);
}

export const find = (at) => document.querySelector(`[data-at="${CSS.escape(at)}"]`);

/** Focuses the element, and returns whether there is one. It is not scrolled to the window's edge. */
export function focusOn(at) {
  const found = find(at);
  found?.focus({ preventScroll: true });
  found?.scrollIntoView({ block: 'nearest' });
  return found !== null && document.activeElement === found;
}

/** Returns what a node has in common with its next description. */
function keyOf(shows) {
  const { at } = shows?.properties ?? {}; // a text has none
  return at === undefined ? shows?.tag : `at ${at}`;
}

/** Makes the child nodes of `parent` as described; `shows` of each is its description. */
function fill(parent, children) {
  const old = Map.groupBy(parent.childNodes, ({ shows }) => keyOf(shows));
  const nodes = children.map((child) => {
    const node = old.get(keyOf(child))?.shift() ?? child.node ?? create(child);
    update(node, child);
    return node;
  });
  for (const node of [...old.values()].flat()) node.remove(); // first: what stays need not move
  let next = parent.firstChild;
  for (const node of nodes) {
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
  }
}

function create({ tag }) {
  if (tag === undefined) return new Text();
  const isDrawing = tag === 'svg' || tag === 'path';
  return isDrawing ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
}

function update(node, wanted) {
  const { shows } = node;
  if (shows === wanted) return; // the very same description
  node.shows = wanted;
  if (typeof wanted !== 'object') {
    node.data = wanted;
    return;
  }
  wanted.node = node; // a description that comes again brings its element along
  fill(node, wanted.children);
  const [before, now] = [shows?.properties ?? {}, wanted.properties];
  for (const name of Object.keys({ ...before, ...now })) {
    const value = now[name] ?? false;
    if (name.startsWith('on')) node[name] = value && ((event) => handle(event, value));
    else if (value !== (before[name] ?? false)) setAttribute(node, name === 'at' ? 'data-at' : name, value);
  }
}

function setAttribute(node, name, value) {
  if (value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? '' : value);
}

/** Handles an event. The browser itself sends no form of ours. */
function handle(event, act) {
  if (event.type === 'submit') event.preventDefault();
  act(event); // what it returns would cancel some events
}
