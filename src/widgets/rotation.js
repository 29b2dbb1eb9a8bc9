// What both widgets say of a rotation, in words.
const inHours = new Intl.NumberFormat('en', { style: 'unit', unit: 'hour', unitDisplay: 'long' });

/** When the old key ends, if it goes on until `overlapHours` after the first use of the new one. */
const worksOn = (overlapHours) => `works on, and ends ${inHours.format(overlapHours)} after the new one is first used.`;

/** What becomes of the old key: `previous` of rotate_api_key in words, or null if it can't be read. */
export function previousWords(previous) {
  const { state, overlapHours } = previous ?? {};
  if (state === 'ended') return 'It has ended. Programs that still send it are refused.';
  return state === 'until_first_use' && overlapHours > 0 ? `It ${worksOn(overlapHours)}` : null;
}
