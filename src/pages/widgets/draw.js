// Makes the page as it is described (html.js) and touches nothing that is so already: what a person typed, opened,
// selected or scrolled stays. An element with `at` stays itself when others come, go, or change places, and the focus
// finds it again.

import { h } from './html.js';

const SVG = new Set(['svg', 'path']);

/** Draws into `root`. The focus is never lost: if what had it is gone, what it stood in gets it, if that can. */
export function draw(root, ...children) {
  const held = document.activeElement;
  const places = [];
  for (let place = held; place !== null && root.contains(place); place = place.parentElement) {
    if (place.dataset?.at !== undefined) places.push(place.dataset.at);
  }
  fill(root, h('', {}, children).children);
  if (places.length > 0 && document.activeElement !== held) places.some(focusOn);
}

const find = (at) => document.querySelector(`[data-at="${CSS.escape(at)}"]`);

/** Whether there is such an element that takes the focus. It is not scrolled to the window's edge. */
export function focusOn(at) {
  const found = find(at);
  found?.focus({ preventScroll: true });
  found?.scrollIntoView({ block: 'nearest' });
  return found !== null && document.activeElement === found;
}

export const isFocusIn = (at) => find(at)?.contains(document.activeElement) === true;

/** Makes the child nodes of `parent` as described; `shows` of each is its description. */
function fill(parent, children) {
  const named = new Map();
  const rest = [];
  for (const node of parent.childNodes) {
    const at = placeOf(node.shows);
    if (at === undefined) rest.push(node);
    else named.set(at, node);
  }
  const nodes = children.map((child) => {
    const at = placeOf(child);
    const index = rest.findIndex(({ shows }) => tagOf(shows) === tagOf(child));
    const old = at === undefined ? rest.splice(index, index < 0 ? 0 : 1)[0] : (named.get(at) ?? child.node);
    named.delete(at);
    const node = old ?? create(tagOf(child));
    update(node, child);
    return node;
  });
  for (const node of [...rest, ...named.values()]) node.remove(); // first: what stays need not move
  let next = parent.firstChild;
  for (const node of nodes) {
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
  }
}

/** Of a text both are undefined. */
const placeOf = (shows) => (typeof shows === 'object' ? shows.at : undefined);
const tagOf = (shows) => (typeof shows === 'object' ? shows.tag : undefined);

function create(tag) {
  if (tag === undefined) return new Text();
  return SVG.has(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
}

function update(node, wanted) {
  const { shows } = node;
  if (shows === wanted) return; // the very same description
  node.shows = wanted;
  if (typeof wanted === 'object') wanted.node = node; // a description that comes again brings its element along
  if (typeof wanted !== 'object') {
    if (node.data !== String(wanted)) node.data = wanted;
    return;
  }
  fill(node, wanted.children);
  for (const name of new Set([...Object.keys(shows?.properties ?? {}), ...Object.keys(wanted.properties)])) {
    const value = wanted.properties[name] ?? null;
    if (name.startsWith('on'))
      node[name] = value && ((event) => void value(event)); // false would cancel the event
    else if (value !== (shows?.properties[name] ?? null)) attribute(node, name === 'at' ? 'data-at' : name, value);
  }
}

function attribute(node, name, value) {
  if (value === null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? '' : value);
}
