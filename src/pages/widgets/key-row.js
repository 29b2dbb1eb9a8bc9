// A key in the list: what it is, how often it was used, and what can be done with it.

import { html } from './html.js';
import { isEnded, rotationAt } from './listed-key.js';
import { icon, inWords, nameOf, scopeList, timeOf } from './parts.js';
import { ACTIONS } from './question.js';
import { rotationWords } from './rotation.js';

const SCOPES_SHOWN = 4;
export const STATES = { active: 'Active', soon: 'Expires soon', expired: 'Expired', revoked: 'Revoked' };
const TONES = { active: 'ok', soon: 'warn', expired: 'muted', revoked: 'bad' };

/** `ask(kind)` null: nothing can be changed from here. `below` stands in it. */
export function keyRow(key, { nowMs, formats, ask, below }) {
  const { id, state, owner } = key;
  const rotation = rotationAt(key, nowMs);
  const when = (label, atMs) =>
    html`<span class="when">${label} ${atMs === null ? 'never' : timeOf(atMs, nowMs, formats)}</span>`;
  return html`<li at=${`row ${id}`} class=${isEnded(key) ? 'row ended' : 'row'}>
    <div class="line">
      <details>
        <summary at=${`details ${id}`}><span class="name">${nameOf(key.name)}</span></summary>
        <dl>${identity(key, rotation)}</dl>
      </details>
      ${owner !== null && html`<p class="hint">of ${nameOf(owner)}</p>`}
      ${key.resource !== null && html`<p class="hint">for <bdi>${key.resource}</bdi></p>`}
      ${scopeList(key.scopes, SCOPES_SHOWN)}
    </div>
    <span class="state ${TONES[state]}">${icon(state)}${STATES[state]}</span>
    <div class="facts hint line">
      ${when('Created', key.createdAt)}${when('Expires', key.expiresAt)}${when('Last used', key.lastUsedAt)}
      ${usesOf(key)}
    </div>
    ${ask && html`<div class="buttons line">${buttons(key, ask)}</div>`}
    ${rotation && html`<p class="sentence hint">${icon('rotate')}<span>${rotationWords(rotation, nowMs, formats)}</span></p>`}
    ${below}
  </li>`;
}

/** An admin may revoke a key of others, and no more. */
function buttons(key, ask) {
  const { id, name, owner } = key;
  const mayEnd = owner === null ? ['delete'] : [];
  const kinds = isEnded(key) ? mayEnd : owner === null ? Object.keys(ACTIONS) : ['revoke'];
  return kinds.map((kind) => {
    const { verb } = ACTIONS[kind];
    return html`<button type="button" class=${kind === 'delete' && 'bad'} at="${kind} ${id}" aria-label="${verb} ${name}" onclick=${() => ask(kind)}>
      ${verb}
    </button>`;
  });
}

/** What tells the key from others, for a reader who has found one. */
function identity({ id, fingerprint }, rotation) {
  const isNew = rotation?.state === 'overlapping';
  const other = rotation?.otherFingerprint;
  const fingerprints = rotation
    ? [
        ['Fingerprint, old key', isNew ? other : fingerprint],
        ['Fingerprint, new key', isNew ? fingerprint : other],
      ]
    : [['Fingerprint', fingerprint]];
  return [['Id', id], ...fingerprints]
    .filter(([, value]) => value !== null)
    .map(([term, value]) => html`<dt>${term}</dt><dd><code>${value}</code></dd>`);
}

const BAR_PX = 3;
const HEIGHT_PX = 16;

/** Calls by day, the oldest on the left. A day with few calls is still seen. */
function bars(days) {
  const most = Math.max(...days);
  const bar = (count, index) =>
    count > 0 && `M${(index + 0.5) * BAR_PX} ${HEIGHT_PX}v-${Math.max(2, Math.round((count / most) * HEIGHT_PX))}`;
  const words = `${inWords(days.reduce((sum, count) => sum + count, 0))} calls in ${days.length} days`;
  return html`<svg viewBox="0 0 ${days.length * BAR_PX} ${HEIGHT_PX}" class="bars ok" role="img" aria-label=${words}>
    <path d=${days.toReversed().map(bar).filter(Boolean).join('')} />
  </svg>`;
}

const UNIT_NAMES = { s: 'second', m: 'minute', h: 'hour', d: 'day' };

/** `a minute`, `in 15 minutes`. */
function windowWords(window) {
  const [count, unit] = [Number.parseInt(window, 10), UNIT_NAMES[window.at(-1)]];
  return count > 1 ? `in ${count} ${unit}s` : `${unit === 'hour' ? 'an' : 'a'} ${unit}`;
}

/** Today's calls, thirty days of them, its quota, and the limit of its own: what is known of it. */
function usesOf({ uses, quota, limit }) {
  if (uses === null && quota === null && limit === null) return null;
  return html`<p class="uses line">
    ${uses && html`${bars(uses.days)}<span>${inWords(uses.today)} today</span>`}
    ${quota && html`<span>Quota ${inWords(quota.requests)} a ${quota.period}</span>`}
    ${limit && html`<span>Limit ${inWords(limit.requests)} ${windowWords(limit.window)}</span>`}
  </p>`;
}
