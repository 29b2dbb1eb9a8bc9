// How often a key was used: today's number, a bar for each of thirty days, its quota, and the limit of its own.

import { element } from './dom.js';

const BAR = 3;
const HEIGHT = 16;

const svgElement = (tag, attributes) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
};

const countWords = (count) => count.toLocaleString('en');

/** The oldest day is on the left. A day with few calls is still seen. */
function bars(days) {
  const most = Math.max(...days);
  const all = days.reduce((sum, count) => sum + count, 0);
  const chart = svgElement('svg', { viewBox: `0 0 ${days.length * BAR} ${HEIGHT}`, class: 'bars', role: 'img' });
  chart.setAttribute('aria-label', `${countWords(all)} calls in ${days.length} days`);
  for (const [ago, count] of days.entries()) {
    const height = count === 0 ? 1 : Math.max(2, Math.round((count / most) * HEIGHT));
    const x = (days.length - 1 - ago) * BAR;
    chart.append(
      svgElement('rect', { x, y: HEIGHT - height, width: BAR - 1, height, class: count === 0 ? 'none' : '' }),
    );
  }
  return chart;
}

const WINDOW_UNITS = { s: 'second', m: 'minute', h: 'hour', d: 'day' };

/** `a minute`, `in 15 minutes`. */
function windowWords(window) {
  const [count, unit] = [Number.parseInt(window, 10), WINDOW_UNITS[window.at(-1)]];
  return count > 1 ? `in ${count} ${unit}s` : `${unit === 'hour' ? 'an' : 'a'} ${unit}`;
}

/** What is known of it; null: nothing. */
export function usesLine({ uses, quota, limit }) {
  const parts = [];
  if (uses !== null) parts.push(bars(uses.days), element('span', '', `${countWords(uses.today)} today`));
  if (quota !== null) parts.push(element('span', '', `Quota ${countWords(quota.requests)} a ${quota.period}`));
  if (limit !== null)
    parts.push(element('span', '', `Limit ${countWords(limit.requests)} ${windowWords(limit.window)}`));
  return parts.length === 0 ? null : element('p', 'uses', ...parts);
}
