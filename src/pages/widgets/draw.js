// Draws the page from descriptions. html`<p class="muted">${text}</p>` describes an element. redraw() updates the page
// to its view's description, and touches nothing that already fits: what a person typed, opened, selected or scrolled
// stays.
//
// A value in a hole is never markup. A hole is a whole attribute (`onclick=${f}`), a part of a quoted one, or a child:
// text, a description, or a list of them; null, undefined and false are left out. `at` is the key of an element among
// its siblings: it keeps its identity when others come, go or move, and the focus finds it again. Elements without
// children end with `/>`. A button sends its form only with `type="submit"`. White space with a line break is dropped at
// the edges of text. A value of one word needs no quotes: pages/inline.ts takes them off.

const HOLE = '\u0000';
const TOKEN = /<\/[\w-]+>|<([\w-]+)((?:\s+[\w-]+(?:=(?:"[^"]*"|[\w-]+|\0))?)*)\s*(\/?)>|\0|[^<\0]+/g;
const ATTRIBUTE = /([\w-]+)(?:=(?:"([^"]*)"|([\w-]+)|\0))?/g;
const parsed = new WeakMap(); // strings of a template → makers of its elements, which take the next value

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
  const open = [[]]; // makers of the children of each open element
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

function attribute([text, name, quoted, word = quoted]) {
  if (word !== undefined) return (take) => [name, word.replaceAll(HOLE, take)];
  return (take) => [name, text.endsWith(HOLE) ? take() : true];
}

let view = () => [];

/** Sets the view of the page, and draws it. */
export function mount(shown) {
  view = shown;
  addEventListener('click', holdSecond, true);
  redraw();
}

const NEAR_PX = 16; // some browsers count taps that are further apart as a double tap
let first = {}; // where the first click was

/** Holds back the second click of a double click or tap: it was not meant for what the first has brought there. */
function holdSecond(event) {
  const { detail, clientX: x, clientY: y } = event;
  if (detail === 1) first = { x, y }; // none after it: the click of a label is followed by one on its box, at the same place
  if (detail > 1 && Math.hypot(x - first.x, y - first.y) < NEAR_PX) {
    event.preventDefault();
    event.stopPropagation();
  }
}

/** Changes the state behind the view, and redraws. */
export function change(state, changed) {
  Object.assign(state, changed);
  redraw();
}

let drawn = []; // what the page showed last

/** Describes the page. If that fails, the page stays as it was, and says so. */
function described() {
  try {
    drawn = h('', {}, view()).children;
    return drawn;
  } catch (error) {
    reportError(error);
    const words = 'This could not be shown. What you see may be old: reload the page.';
    return [html`<p at="broken" class="bad" role="alert">${words}</p>`, ...drawn];
  }
}

/** Redraws the page. If the focused element is gone, focuses the nearest place around it that accepts the focus. */
export function redraw() {
  const root = document.getElementById('root');
  const held = document.activeElement;
  const places = [];
  for (let place = held; place !== null && root.contains(place); place = place.parentElement) {
    if (place.dataset?.at !== undefined) places.push(place.dataset.at);
  }
  fill(root, described());
  if (places.length > 0 && document.activeElement !== held) places.some(focusOn);
}

export const find = (at) => document.querySelector(`[data-at="${CSS.escape(at)}"]`);

/** Focuses the element, scrolling as little as possible. Returns whether it has the focus. */
export function focusOn(at) {
  const found = find(at);
  found?.focus({ preventScroll: true });
  found?.scrollIntoView({ block: 'nearest' });
  return found !== null && document.activeElement === found;
}

/** Returns whether the focus is within the element. Where an answer came late, the person may have moved it. */
export const hasFocus = (at) => find(at)?.contains(document.activeElement) === true;

/** Returns the key by which a node and its next description match. */
function keyOf(shows) {
  const { at } = shows?.properties ?? {}; // text has none
  return at === undefined ? shows?.tag : `at ${at}`;
}

/** Updates the child nodes of `parent` to the descriptions; each node's `shows` is its current one. */
function fill(parent, children) {
  const old = Map.groupBy(parent.childNodes, ({ shows }) => keyOf(shows));
  const nodes = children.map((child) => {
    const node = old.get(keyOf(child))?.shift() ?? child.node ?? create(child);
    update(node, child);
    return node;
  });
  for (const node of [...old.values()].flat()) node.remove(); // first, so that the others need not move
  let next = parent.firstChild;
  for (const node of nodes) {
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
  }
}

function create({ tag }) {
  if (tag === undefined) return new Text();
  if (tag === 'svg' || tag === 'path') return document.createElementNS('http://www.w3.org/2000/svg', tag);
  return Object.assign(document.createElement(tag), tag === 'button' && { type: 'button' });
}

function update(node, wanted) {
  const { shows } = node;
  if (shows === wanted) return; // the very same description
  node.shows = wanted;
  if (typeof wanted !== 'object') {
    node.data = wanted;
    return;
  }
  wanted.node = node; // a reused description brings its element along
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

/** Handles an event. The browser must never send a form itself. A key that an input method takes (229) is no command. */
function handle(event, act) {
  if (event.keyCode === 229) return;
  if (event.type === 'submit') event.preventDefault();
  act(event); // returning its result would cancel some events
}
