// Draws what counts for all keys of an owner together, if anything is set: uses, quota, limit, and the most keys.

import { html } from './draw.js';
import { isCount, readLimit, readQuota, readUses, usesWords, windowWords } from './key-row.js';
import { inWords, SPANS } from './parts.js';

/** Reads `owner` of a list of keys; null if nothing is set, or it is invalid. */
export function readPlan(owner) {
  const uses = readUses(owner?.uses);
  if (uses === null || !isCount(owner.keysMax)) return null;
  return { uses, keysMax: owner.keysMax, quota: readQuota(owner.quota), limit: readLimit(owner.rateLimit) };
}

/** Returns the uses of the current day or month (UTC), summed over the existing keys. */
function usedOf(quota, { today, days }) {
  if (quota.period === 'day') return today;
  return days.slice(0, new Date().getUTCDate()).reduce((sum, count) => sum + count, 0);
}

export function ownerLine({ uses, keysMax, quota, limit }) {
  const used = quota && usedOf(quota, uses);
  const spent = quota && `${inWords(used)} of ${inWords(quota.requests)} ${SPANS[quota.period]}`;
  return html`<p class="uses line hint" at="owner">
    <span>All your keys together: ${usesWords(uses)}</span>
    ${quota && html`<span class="line"><progress max=${quota.requests} value=${Math.min(used, quota.requests)} aria-label="Quota used" />${spent}</span>`}
    ${limit && html`<span>Limit ${inWords(limit.requests)} ${windowWords(limit.window)}</span>`}
    <span>At most ${inWords(keysMax)} ${keysMax === 1 ? 'key' : 'keys'}</span>
  </p>`;
}
