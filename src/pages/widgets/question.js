// Questions before something ends: whether to rotate, revoke or delete a key, or to revoke all of somebody.

import { html } from './html.js';
import { isTime } from './listed-key.js';
import { complaint, nameOf, workButton } from './parts.js';
import { KEY_LOST, kindsOfRotation } from './rotation.js';

const isSuccess = (output) => output?.success === true || typeof output?.revoked === 'number';
export const ACTIONS = {
  rotate: {
    tool: 'rotate_api_key',
    verb: 'Rotate',
    doing: 'Rotating…',
    done: 'API key rotated',
    warning: () => 'It gets a new secret, which is shown here, once.',
    isDone: (output) => typeof output?.key === 'string' && output.key !== '',
  },
  revoke: {
    tool: 'revoke_api_key',
    verb: 'Revoke',
    doing: 'Revoking…',
    done: 'API key revoked',
    warning: (refused) => `Programs that use it are ${refused}.`,
    isDone: isSuccess,
  },
  delete: {
    tool: 'delete_api_key',
    verb: 'Delete',
    doing: 'Deleting…',
    done: 'API key deleted',
    warning: () => 'It stops working and leaves the list. This cannot be undone.',
    isDone: isSuccess,
  },
};

/** The server's `rotation_under_way` in the words of the list; any other refusal as it is. */
function refusalWords({ failure, problem: { code, previousUntil } }, { short }) {
  if (code !== 'rotation_under_way' || !isTime(previousUntil)) return failure;
  const [, { label }] = kindsOfRotation('');
  return `The old key of the rotation before still works, until ${short.format(previousUntil)}. Rotate after that, or choose “${label}”.`;
}

/**
 * `at` is the place of it, and ends those of its buttons; `choice(isBusy)` stands between words and buttons; `ends`:
 * whether it ends a key. `act` resolves to why it failed, or nothing; `close` is called when the person leaves it.
 */
export function question({ at, look, label, words, choice, verb, doing, ends }, { act, close, redraw }) {
  let isBusy = false;
  let failure;

  async function go() {
    if (isBusy) return;
    isBusy = true;
    failure = undefined;
    redraw();
    failure = await act();
    isBusy = false;
    redraw(failure);
  }

  const view = () => html`<div class="${look} stack" at=${at} role="group" aria-label=${label}
    onkeydown=${({ key }) => key === 'Escape' && !isBusy && close()}>
    ${failure ? complaint(failure) : html`<p id="asked">${words}</p>`}
    ${choice?.(isBusy)}
    <div class="line">
      ${workButton(isBusy, failure ? 'Try again' : verb, doing, { class: ends ? 'solid bad' : 'solid', at: `go on ${at}`, onclick: go })}
      ${
        !isBusy &&
        html`<button type="button" at="cancel ${at}" aria-describedby=${!failure && 'asked'} onclick=${close}>Cancel</button>`
      }
    </div>
  </div>`;
  return { view, isBusy: () => isBusy };
}

/** What is asked about `key`. `done(output)` comes after a success. */
export function askAbout(key, kind, { callTool, refused, formats, redraw, done, close }) {
  const { id, name, owner, rotation } = key;
  const { tool, verb, doing, warning, isDone } = ACTIONS[kind];
  const isRotation = kind === 'rotate';
  let overlapHours = isRotation ? 24 : undefined;

  async function act() {
    const [called, args] =
      owner === null ? [tool, { keyId: id, overlapHours }] : ['admin_revoke_keys', { keyIds: [id] }];
    const result = await callTool(called, args);
    if (!isDone(result.output)) return isRotation && result.output ? KEY_LOST : refusalWords(result, formats);
    done(result.output);
  }

  const choose = ({ target }) => {
    overlapHours = Number(target.value);
  };
  const choice = (isBusy) => html`<fieldset class="stack" aria-label="How to rotate it" disabled=${isBusy}>
    ${kindsOfRotation(refused).map(
      ({ overlapHours: hours, label, effect }) => html`<label class="sentence">
        <input type="radio" name="rotate ${id}" value=${hours} at="hours ${hours} of ${id}" checked=${hours > 0}
          onchange=${choose} />
        <span>${label}<br /><small>${effect}</small></span>
      </label>`,
    )}
  </fieldset>`;
  const replaces = isRotation && rotation?.state === 'until_first_use' && ' The new one that was not used yet ends.';
  const about = {
    at: `of ${id}`,
    look: 'inset',
    label: `${verb} ${name}?`,
    words: html`${verb} ${nameOf(name)}? ${warning(refused)}${replaces}`,
    choice: isRotation ? choice : undefined,
    verb,
    doing,
    ends: !isRotation,
  };
  return question(about, { act, close, redraw });
}

/** What gets the focus first when it is asked. */
export const firstIn = (kind, id) => `${kind === 'rotate' ? 'hours 24' : 'cancel'} of ${id}`;
