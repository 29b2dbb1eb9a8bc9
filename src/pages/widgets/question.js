// The question in the row of a key whether to rotate, revoke or delete it, and why that failed.

import { html } from './html.js';
import { isTime } from './listed-key.js';
import { complaint, nameOf } from './parts.js';
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

/** What is asked about `key`. `done(output)` comes after a success, `close()` when the person leaves it. */
export function askAbout(key, kind, { callTool, refused, formats, redraw, done, close }) {
  const { id, name, owner, rotation } = key;
  const { tool, verb, doing, warning, isDone } = ACTIONS[kind];
  let overlapHours = kind === 'rotate' ? 24 : undefined;
  let isBusy = false;
  let failure = null;

  async function go() {
    if (isBusy) return;
    isBusy = true;
    failure = null;
    redraw();
    const [called, args] =
      owner === null ? [tool, { keyId: id, overlapHours }] : ['admin_revoke_keys', { keyIds: [id] }];
    const result = await callTool(called, args);
    isBusy = false;
    if (isDone(result.output)) return done(result.output);
    failure = kind === 'rotate' && result.output !== null ? KEY_LOST : refusalWords(result, formats);
    redraw(failure);
  }

  const choose = ({ target }) => {
    overlapHours = Number(target.value);
  };
  const choice = () => html`<fieldset class="stack" aria-label="How to rotate it" disabled=${isBusy}>
    ${kindsOfRotation(refused).map(
      ({ overlapHours: hours, label, effect }) => html`<label>
        <input type="radio" name="rotate ${id}" value=${hours} at="hours ${hours} of ${id}" checked=${hours > 0}
          onchange=${choose} />
        <span>${label}<br /><small>${effect}</small></span>
      </label>`,
    )}
  </fieldset>`;
  const replaces =
    kind === 'rotate' && rotation?.state === 'until_first_use' ? ' The new one that was not used yet ends.' : '';

  return {
    /** What gets the focus first. */
    first: `${kind === 'rotate' ? `hours ${overlapHours}` : 'cancel'} of ${id}`,
    isBusy: () => isBusy,
    view: () => html`<div class="inset stack" at="question" role="group" aria-label="${verb} ${name}?"
      onkeydown=${({ key: pressed }) => pressed === 'Escape' && !isBusy && close()}>
      ${
        failure === null
          ? html`<p id="asked">${verb} ${nameOf(name)}? ${warning(refused)}${replaces}</p>`
          : complaint(failure)
      }
      ${kind === 'rotate' && choice()}
      <div class="line">
        <button type="button" class=${kind === 'rotate' ? 'solid' : 'solid ends'} at=${`go on with ${id}`}
          aria-disabled=${isBusy && 'true'} onclick=${go}>
          ${isBusy ? doing : failure === null ? verb : 'Try again'}
        </button>
        ${
          !isBusy &&
          html`<button type="button" at=${`cancel of ${id}`} aria-describedby=${failure === null && 'asked'} onclick=${close}>
            Cancel
          </button>`
        }
      </div>
    </div>`,
  };
}
