// The question in the row of a key whether to rotate, revoke or delete it, and why that failed.

import { byId, element, failureOf, icon, outputOf, problemOf, showName } from './dom.js';
import { KEY_LOST, refusalWords, rotationChoice } from './rotation.js';

const isSuccess = (output) => output?.success === true || typeof output?.revoked === 'number';
export const ACTIONS = {
  rotate: {
    tool: 'rotate_api_key',
    verb: 'Rotate',
    doing: 'Rotating…',
    done: 'API key rotated',
    warning: 'It gets a new secret, which is shown here, once.',
    isDone: (output) => typeof output?.key === 'string' && output.key !== '',
  },
  revoke: {
    tool: 'revoke_api_key',
    verb: 'Revoke',
    doing: 'Revoking…',
    done: 'API key revoked',
    warning: 'Programs that use it are refused at once.',
    isDone: isSuccess,
  },
  delete: {
    tool: 'delete_api_key',
    verb: 'Delete',
    doing: 'Deleting…',
    done: 'API key deleted',
    warning: 'It stops working and leaves the list. This cannot be undone.',
    isDone: isSuccess,
  },
};

/** What the person is asked about the key: text and elements. */
function questionOf(key, { verb, warning }, isRotation) {
  const name = element('b', '');
  showName(name, key.name);
  const replaces =
    isRotation && key.rotation?.state === 'until_first_use' ? ' The new one that was not used yet ends.' : '';
  return [`${verb} `, name, `? ${warning}${replaces}`];
}

/**
 * Asks in the row itself whether to go on, and shows a failure there. `opener` gets the focus back; `on` has
 * `callTool(tool, args)`, `finished(key, kind, output)`, and `formats` of times.
 */
export function ask(key, kind, opener, { callTool, finished, formats }) {
  const asked = key.row.querySelector('.ask');
  if (asked?.querySelector('[aria-disabled]')) return; // the response to that one comes first
  asked?.remove();
  const { tool, verb, doing, isDone } = ACTIONS[kind];
  const kinds = kind === 'rotate' ? rotationChoice(`rotate ${key.id}`) : null;
  const question = questionOf(key, ACTIONS[kind], kinds !== null);
  const sentence = element('p', '', ...question);
  const go = element('button', kinds ? 'solid' : 'solid ends', verb);
  const cancel = element('button', '', 'Cancel');
  const box = element('div', 'ask', sentence, ...(kinds ? [kinds] : []), element('div', '', go, cancel));
  box.role = 'group';
  box.ariaLabel = `${verb} ${key.name}?`;
  go.type = cancel.type = 'button';
  cancel.ariaDescribedByElements = [sentence]; // it gets the focus first, unless there is a choice
  let busy = false;
  cancel.onclick = () => {
    box.remove();
    opener.focus();
  };
  box.onkeydown = (event) => {
    if (event.key === 'Escape' && !busy) cancel.onclick();
  };
  go.onclick = async () => {
    if (busy) return;
    busy = true;
    go.ariaDisabled = 'true';
    go.textContent = doing;
    cancel.hidden = true;
    if (kinds) kinds.disabled = true;
    byId('status').replaceChildren();
    sentence.className = '';
    sentence.role = null;
    sentence.replaceChildren(...question);
    let failure;
    try {
      const chosen = kinds && { overlapHours: Number(kinds.querySelector(':checked').value) };
      const result =
        key.owner === null
          ? await callTool(tool, { keyId: key.id, ...chosen })
          : await callTool('admin_revoke_keys', { keyIds: [key.id] });
      const output = outputOf(result);
      if (isDone(output)) return finished(key, kind, output);
      failure = kinds && output ? KEY_LOST : (refusalWords(problemOf(result), formats) ?? failureOf(result));
    } catch (error) {
      failure = error.message;
    }
    if (!box.isConnected) byId('status').textContent = failure; // a newer list has come
    busy = false;
    if (kinds) kinds.disabled = false;
    go.ariaDisabled = null;
    go.textContent = 'Try again';
    cancel.hidden = false;
    sentence.className = 'sentence bad';
    sentence.role = 'alert';
    sentence.replaceChildren(icon('warn'), failure);
  };
  key.row.querySelector('.row-end').append(box);
  (kinds?.querySelector(':checked') ?? cancel).focus({ preventScroll: true });
  key.row.scrollIntoView({ block: 'nearest' });
}
