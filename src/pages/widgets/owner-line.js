// Draws what counts for all keys of an owner together, if anything is set: uses, quota, limit, and the most keys.

import { html } from './draw.js';
import { amountWords, anew, isCount, readLimit, readQuota, readUses, usesWords } from './key-row.js';
import { countWords, inWords } from './parts.js';

/** Reads `owner` of a list of keys; null if nothing is set, or it is invalid. */
export function readPlan(owner) {
  const uses = readUses(owner?.uses);
  if (uses === null || !isCount(owner.keysMax)) return null;
  return { uses, keysMax: owner.keysMax, quota: readQuota(owner.quota), limit: readLimit(owner.rateLimit) };
}

/** Draws how much of a quota is used, as a bar and in words, `more` at their end; red when nothing is left. */
export function quotaBar(quota, more = '') {
  const { requests, remaining } = quota;
  if (remaining === null) return html`<span>Quota ${amountWords(quota)}</span>`;
  const used = requests - remaining;
  return html`<span class="line">
    <progress class=${remaining === 0 && 'bad'} max=${requests} value=${used} aria-label="Quota used" />
    <span class=${remaining === 0 && 'bad'}>${inWords(used)} of ${amountWords(quota)}${more}${anew(quota)}</span>
  </span>`;
}

export function ownerLine({ uses, keysMax, quota, limit }) {
  return html`<p class="uses line hint" at="owner">
    <span>All your keys together: ${usesWords(uses)}</span>
    ${quota && quotaBar(quota)}
    ${limit && html`<span>Limit ${amountWords(limit)}</span>`}
    <span>At most ${countWords(keysMax)}</span>
  </p>`;
}
