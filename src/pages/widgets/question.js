// Draws the questions before something ends, such as whether to rotate, revoke or delete a key.

import { html } from './draw.js';
import {
  complaint,
  countWords,
  daysOffered,
  formats,
  inDays,
  isTime,
  isWorking,
  nameOf,
  setup,
  workButton,
} from './parts.js';

export const ACTIONS = {
  rotate: { verb: 'Rotate', doing: 'Rotating…', warning: 'It gets a new secret, which is shown here, once.' },
  revoke: { verb: 'Revoke', doing: 'Revoking…', warning: `Programs that use it are ${setup.refused}.` },
  delete: {
    verb: 'Delete',
    doing: 'Deleting…',
    warning: 'It stops working and leaves the list. This cannot be undone.',
  },
};

/** The calls by which owners change their own keys, the most common first: tool and arguments. */
export const OWN_CALLS = {
  rotate: (keyId, how) => ['rotate_api_key', { keyId, ...how }],
  revoke: (keyId) => ['revoke_api_key', { keyId }],
  delete: (keyId) => ['delete_api_key', { keyId }],
};

/** Says what happens to the old key if it works until `hours` after the first use of the new one. */
export const worksOn = (hours) => `works on, and ends ${countWords(hours, 'hour')} after the new one is first used.`;
const OVERLAP_HOURS = 24;
const LEAKED = 'It leaked: end it now';
/** The kinds of rotation, by what they do to the old key; the harmless one first. */
const ROTATIONS = [
  [OVERLAP_HOURS, 'Replace it without interruption', `The old key ${worksOn(OVERLAP_HOURS)}`],
  [0, LEAKED, `Programs that use the old key are ${setup.refused}.`],
];
const CHILDREN = ` The keys that it has made go on until the old one ends: if one of those leaked, end that one, or choose “${LEAKED}”.`;
const CHILDREN_OF_RULES =
  ' Rules go on, and the keys made by workloads with them, whatever you choose: if one of those leaked, end that one.';
const KEY_LOST =
  'The key was rotated, but this chat app did not pass the new one on. Ask in the chat to rotate it again.';

/** Returns whether a tool returned a new key. */
export const hasKey = (output) => typeof output?.key === 'string' && output.key !== '';
const isSuccess = (output) => output?.success === true || typeof output?.revoked === 'number';

/** Words the server's `rotation_under_way` for the list; other refusals stay as they are. */
function refusalWords({ failure, problem: { code, previousUntil } }) {
  if (code !== 'rotation_under_way' || !isTime(previousUntil)) return failure;
  return `The old key of the rotation before still works, until ${formats.short.format(previousUntil)}. Rotate after that, or choose “${LEAKED}”.`;
}

let asked = 0; // of all questions

/**
 * Creates a question. `at` is its place, and the suffix of its buttons' places. `choice(isBusy)` is drawn between words
 * and buttons. `ends`: it ends a key. `act` resolves with why it failed, or nothing. `close` is called when the person
 * leaves it.
 */
export function question({ at, label, words, choice, verb, doing, ends, act, close }) {
  const goOn = `go on ${at}`;
  asked += 1;
  const id = `asked-${asked}`;
  let failure;
  async function go() {
    failure = undefined;
    failure = await act();
  }
  function view() {
    const isBusy = isWorking(goOn);
    const leave = html`<button at="cancel ${at}" aria-describedby=${!failure && id} onclick=${close}>Cancel</button>`;
    return html`<div class="inset stack" at=${at} role="group" aria-label=${label}
      onkeydown=${({ key }) => key === 'Escape' && !isBusy && close()}>
      ${failure ? complaint(failure) : html`<p id=${id}>${words}</p>`}
      ${choice?.(isBusy)}
      <div class="line">
        ${workButton({ at: goOn, label: failure ? 'Try again' : verb, doing, look: ends ? 'solid bad' : 'solid', act: go })}
        ${!isBusy && leave}
      </div>
    </div>`;
  }
  return { view, isBusy: () => isWorking(goOn) };
}

/** Asks about `key`. `calls`: see keysList. Calls `done(output)` after a success, `missed(failure)` after a failure. */
export function askAbout(key, kind, { callTool, calls, done, missed, close }) {
  const { id, name, rotation } = key;
  const { verb, doing, warning } = ACTIONS[kind];
  const isRotation = kind === 'rotate';
  let overlapHours = isRotation ? OVERLAP_HOURS : undefined;
  let expiresInDays;

  async function act() {
    const result = await callTool(...calls[kind](id, { overlapHours, expiresInDays }));
    const isDone = isRotation ? hasKey(result.output) : isSuccess(result.output);
    const failure = isDone ? undefined : isRotation && result.output ? KEY_LOST : refusalWords(result);
    if (isDone) done(result.output);
    else missed(failure);
    return failure;
  }

  const choose = ({ target }) => {
    overlapHours = Number(target.value);
  };
  const chooseEnd = ({ target }) => {
    expiresInDays = Number(target.value) || undefined;
  };
  const ends = html`<select at="end of ${id}" onchange=${chooseEnd}>
    <option value="">as before</option>
    ${daysOffered(setup.daysMax ?? null).map((days) => html`<option value=${days}>${inDays(days)}</option>`)}
  </select>`;
  const choice = (isBusy) => html`<fieldset class="stack" aria-label="How to rotate it" disabled=${isBusy}>
    ${ROTATIONS.map(
      ([hours, label, effect]) => html`<label class="sentence">
        <input type="radio" name="rotate ${id}" value=${hours} at="hours ${hours} of ${id}"
          checked=${hours === overlapHours} onchange=${choose} />
        <span>${label}<br /><small>${effect}</small></span>
      </label>`,
    )}
    ${setup.url !== null && html`<label class="line">Expires ${ends}</label>`}
  </fieldset>`;
  const replaces = isRotation && rotation?.state === 'until_first_use' && ' The new one that was not used yet ends.';
  return question({
    at: `of ${id}`,
    label: `${verb} ${name}?`,
    words: html`${verb} ${nameOf(name)}? ${warning}${replaces}${isRotation && key.children > 0 && (key.rules > 0 ? CHILDREN_OF_RULES : CHILDREN)}`,
    choice: isRotation ? choice : undefined,
    verb,
    doing,
    ends: !isRotation,
    act,
    close,
  });
}

/** Returns the place that gets the focus when the question opens. */
export const firstIn = (kind, id) => `${kind === 'rotate' ? `hours ${OVERLAP_HOURS}` : 'cancel'} of ${id}`;
