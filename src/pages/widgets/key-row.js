// Draws the row of a key: what it is, how often it was used, and what can be done with it. Validates listed keys,
// because a host may pass a widget anything.

import { html } from './draw.js';
import { countWords, formats, icon, inWords, isTime, nameOf, scopeList, timeOf } from './parts.js';
import { ACTIONS } from './question.js';

const SOON_MS = 7 * 86_400_000;
const SCOPES_SHOWN = 4;
/** The label and tone of each state. */
export const STATES = {
  active: ['Active', 'ok'],
  soon: ['Expires soon', 'warn'],
  expired: ['Expired', 'muted'],
  revoked: ['Revoked', 'bad'],
};

/**
 * Draws the row of a key. `ask(kind)` begins a change of `kinds`; null if none is possible. `toggle` opens and closes the
 * row; an open one has a panel below. While `isAsked`, a question in the row has the only buttons. `own` has what else may be
 * done (doors/page/key-panel.js), or is null. `whose` names the owner, if the list has several. `below` goes into the row.
 */
export function keyRow(key, { ask, kinds, isOpen, isAsked, toggle, own, whose }, below) {
  const { id, name, state } = key;
  const [label, tone] = STATES[state];
  const rotation = rotationOf(key);
  const [first, ...others] = ask ? kinds.filter((kind) => !isEnded(key) || kind === 'delete') : [];
  const looks = ['row', isEnded(key) && 'ended', isOpen && 'open'].filter(Boolean).join(' ');
  return html`<li at="row ${id}" class=${looks}>
    <div class="line">
      ${own?.nameView(key) || html`<span class="name">${nameOf(name)}</span>`}
      ${whose && html`<p class="hint">of ${nameOf(whose)}</p>`}
      ${key.resource !== null && html`<p class="hint">for <bdi>${key.resource}</bdi></p>`}
      ${scopeList(key.scopes, SCOPES_SHOWN)}
    </div>
    <span class="state ${tone}">${icon(state)}${label}</span>
    <div class="facts hint line">${Object.values(timesOf(key))}${childrenWords(key.children)}${usesOf(key)}</div>
    <div class="buttons line">${
      !isAsked &&
      html`${first && action(key, first, ask)}
        <button at="details ${id}" aria-label="More about ${name}" aria-expanded=${String(isOpen)} onclick=${toggle}>…</button>`
    }</div>
    ${rotation && html`<p class="sentence hint">${icon('rotate')}<span>${rotationWords(rotation)}</span></p>`}
    ${below}
    ${isOpen && panelOf(key, { others, ask, isAsked, toggle, own, rotation })}
  </li>`;
}

function action({ id, name }, kind, ask) {
  const { verb } = ACTIONS[kind];
  return html`<button class=${kind === 'delete' && 'bad'} at="${kind} ${id}" aria-label="${verb} ${name}"
    onclick=${() => ask(kind)}>${verb}</button>`;
}

const panelOf = (
  key,
  { others, ask, isAsked, toggle, own, rotation },
) => html`<div class="panel stack" at="panel ${key.id}"
  role="group" aria-label="Details of ${key.name}" tabindex="-1">
  ${own?.editView(key)}
  ${!isAsked && (others.length > 0 || own) && html`<div class="line">${own?.buttons(key)}${others.map((kind) => action(key, kind, ask))}${isEnded(key) && closer(key, toggle)}</div>`}
  <div class="facts hint line narrow-only">${timesOf(key).made}${usesOf(key)}</div>
  <dl>${identity(key, rotation)}</dl>
  ${own?.rulesView(key)}
  ${own?.childrenView(key, isAsked)}
  ${own?.historyView(key, isAsked)}
</div>`;

/** Draws a button in the panel of a key that has ended, which has no other: without it the next one would be another key's. */
const closer = ({ id, name }, toggle) =>
  html`<button at="close ${id}" aria-label="Close ${name}" onclick=${toggle}>Close</button>`;

function timesOf({ state, createdAt, expiresAt, lastUsedAt }) {
  const when = (look, words, atMs) =>
    html`<span class=${look}>${words}${atMs !== null && html` ${timeOf(atMs)}`}</span>`;
  const ends = expiresAt === null ? 'Never expires' : state === 'expired' ? 'Expired' : 'Expires';
  return {
    made: createdAt !== null && when('when made', 'Created', createdAt),
    ends: when('when', ends, expiresAt),
    used: when('when', lastUsedAt === null ? 'Not used yet' : 'Last used', lastUsedAt),
  };
}

/** Draws what identifies the key, for somebody who has found one. */
function identity({ id, fingerprint }, rotation) {
  const other = rotation?.otherFingerprint;
  const [old, fresh] = rotation?.state === 'overlapping' ? [other, fingerprint] : [fingerprint, other];
  const both = { 'Fingerprint, old key': old, 'Fingerprint, new key': fresh };
  return Object.entries({ Id: id, ...(rotation === null ? { Fingerprint: fingerprint } : both) })
    .filter(([, value]) => value !== null)
    .map(([term, value]) => html`<dt>${term}</dt><dd><code>${value}</code></dd>`);
}

const rotationWords = ({ state, previousUntil }) =>
  html`Rotation under way: the ${
    state === 'until_first_use'
      ? 'old key works on, and the new one has not been used yet.'
      : html`new key is in use. The old one ends ${timeOf(previousUntil)}, on ${formats.short.format(previousUntil)}.`
  }`;

const BAR_PX = 3;
const HEIGHT_PX = 22;

/** Draws the uses by day, the oldest on the left, with a scale. Days with few uses stay visible. */
function bars(days) {
  const most = Math.max(1, ...days);
  const bar = (count, index) =>
    count > 0 ? `M${(index + 0.5) * BAR_PX} ${HEIGHT_PX}v-${Math.max(2, Math.round((count / most) * HEIGHT_PX))}` : '';
  return html`<span class="scale" aria-hidden="true"><span>${inWords(most)}</span><span>0</span></span>
    <svg viewBox="0 0 ${days.length * BAR_PX} ${HEIGHT_PX}" class="bars ok" role="img"
      aria-label="Uses by day, at most ${inWords(most)} in one">
      <path d=${days.toReversed().map(bar).join('')} />
    </svg>`;
}

/** Returns words like `12 uses in 30 days, 4 today`. */
export function usesWords({ today, days }) {
  const all = days.reduce((sum, count) => sum + count, 0);
  return `${countWords(all, 'use')} in ${days.length} days, ${inWords(today)} today`;
}

/** The words for a period of a quota, and for the unit of a limit's window. */
const SPANS = { s: 'a second', m: 'a minute', h: 'an hour', d: 'a day', day: 'a day', month: 'a month' };

/** Returns words like `a month`, `a minute` or `in 15 minutes` for a period or window. */
export function spanWords(span) {
  const [count, one] = [Number.parseInt(span, 10), SPANS[span] ?? SPANS[span.at(-1)]];
  return count > 1 ? `in ${count} ${one.split(' ')[1]}s` : one;
}

/** Returns words like `5,000 a day` for a quota or a limit. */
export const amountWords = ({ requests, period, window }) => `${inWords(requests)} ${spanWords(period ?? window)}`;

const childrenWords = (count) => count > 0 && html`<span>${countWords(count)} for its programs</span>`;

const leftWords = (quota) =>
  quota.remaining === 0 ? [', used up', anew(quota)] : quota.remaining !== null && `, ${inWords(quota.remaining)} left`;

/** Draws when a quota that is used up begins anew: with the next day or month, in UTC. */
export function anew({ remaining, period }) {
  if (remaining !== 0) return null;
  const [year, month, day] = new Date().toISOString().split(/\D/).map(Number);
  const nextMs = period === 'month' ? Date.UTC(year, month) : Date.UTC(year, month - 1, day + 1);
  return html`, begins anew ${timeOf(nextMs)}`;
}

/** Draws the key's uses, quota and own limit, as far as they are known. */
function usesOf({ uses, quota, limit }) {
  if (uses === null && quota === null && limit === null) return null;
  return html`<p class="uses line">
    ${uses && html`${bars(uses.days)}<span>${usesWords(uses)}</span>`}
    ${quota && html`<span class=${quota.remaining === 0 && 'bad'}>Quota ${amountWords(quota)}${leftWords(quota)}</span>`}
    ${limit && html`<span>Limit ${amountWords(limit)}</span>`}
  </p>`;
}

const DAYS = 30; // of uses

export const textOrNull = (value) => (typeof value === 'string' ? value : null);
const timeOrNull = (value) => (isTime(value) ? value : null);
export const isCount = (value) => Number.isSafeInteger(value) && value >= 0;

/** Reads the calls by day, today first, and adds the zeros that a list leaves out. Returns null without any in 30 days. */
export function readUses(uses) {
  const days = uses?.last30Days;
  if (!isCount(uses?.today) || !Array.isArray(days) || !days.every(isCount) || days.length > DAYS) return null;
  return { today: uses.today, days: [...days, ...Array(DAYS - days.length).fill(0)] };
}

/** Reads a quota with what is `remaining` of it, which is null where the server doesn't say it. */
export function readQuota(quota) {
  const { requests, period, remaining } = quota ?? {};
  if (!isCount(requests) || !['day', 'month'].includes(period)) return null;
  return { requests, period, remaining: isCount(remaining) ? Math.min(remaining, requests) : null };
}

export const readLimit = (limit) =>
  isCount(limit?.requests) && /^[1-9]\d{0,8}[smhd]$/.test(limit.window) ? limit : null;

/** Reads `rotation` of a listed key; null if it is missing or invalid. */
export function readRotation(rotation) {
  const { state, previousUntil, otherFingerprint } = rotation ?? {};
  if (state !== 'until_first_use' && (state !== 'overlapping' || !isTime(previousUntil))) return null;
  return { state, previousUntil, otherFingerprint: textOrNull(otherFingerprint) };
}

/** Returns a list with the key, its state now and its searchable text; an empty one if the item isn't a key. */
export function readKey(item) {
  if (typeof item?.id !== 'string') return [];
  const { id, owner, name, scopes, active, fingerprint, createdAt, expiresAt, lastUsedAt } = item;
  const read = {
    id,
    item, // as listed, with what only some lists have
    owner: textOrNull(owner), // in a list of several owners
    name: String(name),
    scopes: Array.isArray(scopes) ? scopes.map(String) : [],
    active: active === true,
    resource: textOrNull(item.resource), // the one server that it is for
    fingerprint: textOrNull(fingerprint),
    createdAt: timeOrNull(createdAt),
    expiresAt: timeOrNull(expiresAt),
    lastUsedAt: timeOrNull(lastUsedAt),
    rotation: readRotation(item.rotation),
    uses: readUses(item.uses),
    children: isCount(item.children) ? item.children : 0, // the good keys that it has made
    rules: isCount(item.rules) ? item.rules : 0, // that let workloads act as it
    quota: readQuota(item.quota),
    limit: readLimit(item.rateLimit),
  };
  const others = [read.name, read.owner, read.resource, id, read.fingerprint, read.rotation?.otherFingerprint];
  const text = [...others, ...read.scopes].join('\n').toLowerCase();
  return [{ ...read, text, state: stateOf(read, Date.now()), drawn: null }];
}

export function stateOf({ active, expiresAt }, nowMs) {
  if (!active) return 'revoked';
  if (expiresAt === null || expiresAt - nowMs > SOON_MS) return 'active';
  return expiresAt < nowMs ? 'expired' : 'soon';
}

export const isEnded = ({ state }) => state === 'expired' || state === 'revoked';

/** Returns the key's rotation while it is in progress, else null. */
function rotationOf({ state, rotation }) {
  if (rotation === null || isEnded({ state })) return null;
  return rotation.state === 'until_first_use' || rotation.previousUntil > Date.now() ? rotation : null;
}
