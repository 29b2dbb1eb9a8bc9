// What is said of rotations, in words.

import { timeOf } from './parts.js';

const OVERLAP_HOURS = 24;

/** For a rotation that succeeded, and came without the new key. */
export const KEY_LOST =
  'The key was rotated, but this chat app did not pass the new one on. Ask in the chat to rotate it again.';

const inHours = new Intl.NumberFormat('en', { style: 'unit', unit: 'hour', unitDisplay: 'long' });

/** What becomes of the old key if it goes on until `overlapHours` after the first use of the new one. */
const worksOn = (overlapHours) => `works on, and ends ${inHours.format(overlapHours)} after the new one is first used.`;

/** The kinds of rotation by what they do to the old key, the harmless one first. */
export const kindsOfRotation = (refused) => [
  {
    overlapHours: OVERLAP_HOURS,
    label: 'Replace it without interruption',
    effect: `The old key ${worksOn(OVERLAP_HOURS)}`,
  },
  { overlapHours: 0, label: 'It leaked: end it now', effect: `Programs that use the old key are ${refused}.` },
];

/** What the old key does, from `previous` of rotate_api_key, as a sentence without its subject; null if unreadable. */
export function previousWords(previous) {
  const { state, overlapHours } = previous ?? {};
  if (state === 'ended') return 'has ended. Programs that still send it are refused.';
  return state === 'until_first_use' && overlapHours > 0 ? worksOn(overlapHours) : null;
}

/** A rotation under way as text and elements. */
export const rotationWords = ({ state, previousUntil }, nowMs, formats) =>
  state === 'until_first_use'
    ? ['Rotation under way: the old key works on, and the new one has not been used yet.']
    : [
        'Rotation under way: the new key is in use. The old one ends ',
        timeOf(previousUntil, nowMs, formats),
        `, on ${formats.short.format(previousUntil)}.`,
      ];
