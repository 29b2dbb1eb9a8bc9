// What both widgets say of rotations, in words.

import { element, isTime, timeElement } from './dom.js';

const OVERLAP_HOURS = 24;

/** For a rotation that succeeded, and came without the new key. */
export const KEY_LOST =
  'The key was rotated, but this chat app did not pass the new one on. Ask in the chat to rotate it again.';

const inHours = new Intl.NumberFormat('en', { style: 'unit', unit: 'hour', unitDisplay: 'long' });

/** What becomes of the old key if it goes on until `overlapHours` after the first use of the new one. */
const worksOn = (overlapHours) => `works on, and ends ${inHours.format(overlapHours)} after the new one is first used.`;

/** By what they do to the old key, the harmless one first. */
const KINDS = [
  {
    overlapHours: OVERLAP_HOURS,
    label: 'Replace it without interruption',
    effect: `The old key ${worksOn(OVERLAP_HOURS)}`,
  },
  { overlapHours: 0, label: 'It leaked: end it now', effect: 'Programs that use the old key are refused at once.' },
];

/** The choice between the two kinds of rotation. The radio buttons have the `name`, and hours as values. */
export function rotationChoice(name) {
  const labels = KINDS.map(({ overlapHours, label, effect }, index) => {
    const radio = element('input', '');
    Object.assign(radio, { type: 'radio', name, value: overlapHours, checked: index === 0 });
    return element('label', '', radio, label, element('span', '', effect));
  });
  const choice = element('fieldset', 'kinds', ...labels);
  choice.ariaLabel = 'How to rotate it';
  return choice;
}

/** What the old key does, from `previous` of rotate_api_key, as a sentence without its subject; null if unreadable. */
export function previousWords(previous) {
  const { state, overlapHours } = previous ?? {};
  if (state === 'ended') return 'has ended. Programs that still send it are refused.';
  return state === 'until_first_use' && overlapHours > 0 ? worksOn(overlapHours) : null;
}

/** `rotation` of a listed key, or null if there is none that can be read. */
export function readRotation(rotation) {
  const { state, previousUntil, otherFingerprint } = rotation ?? {};
  if (state !== 'until_first_use' && (state !== 'overlapping' || !isTime(previousUntil))) return null;
  return { state, previousUntil, otherFingerprint: typeof otherFingerprint === 'string' ? otherFingerprint : null };
}

export const isUnderWay = ({ state, previousUntil }, nowMs) => state === 'until_first_use' || previousUntil > nowMs;

/** A rotation under way as text and elements; `exact` and `short` format times. */
export function rotationWords({ state, previousUntil }, nowMs, { exact, short }) {
  if (state === 'until_first_use') {
    return ['Rotation under way: the old key works on, and the new one has not been used yet.'];
  }
  const time = timeElement(previousUntil, nowMs, exact);
  return ['Rotation under way: the new key is in use. The old one ends ', time, `, on ${short.format(previousUntil)}.`];
}

/** The server's `rotation_under_way` in the words of the list, or null: any other refusal is said as it is. */
export function refusalWords({ code, previousUntil }, { short }) {
  if (code !== 'rotation_under_way' || !isTime(previousUntil)) return null;
  const [, { label }] = KINDS;
  return `The old key of the rotation before still works, until ${short.format(previousUntil)}. Rotate after that, or choose “${label}”.`;
}
