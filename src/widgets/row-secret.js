// The new secret of a key that was rotated, in the key's row, until it is saved, ended, or the widget closes.

import { byId } from './dom.js';
import { showSecret } from './new-key.js';
import { previousWords } from './rotation.js';

const newKeys = new Map(); // by id of the key, each with its box

/** Shows the new secret in the row, and returns where. `saved` is told the row once the person has it. */
export function showNewKey({ id, name, row }, { key: secret, warning, previous }, saved) {
  forgetNewKey(id);
  const box = byId('new-key').content.firstElementChild.cloneNode(true);
  const [code, toggle, copy, status] = ['code', '.show', '.copy', '.status'].map((part) => box.querySelector(part));
  box.ariaLabel = `New key of ${name}`;
  box.querySelector('.save').textContent = String(warning ?? 'Save this key now - it will not be shown again');
  box.querySelector('.old').textContent = `The old key ${previousWords(previous) ?? 'is replaced.'}`;
  const forget = showSecret(secret, { toggle, boxes: [{ code, copy, status }] });
  newKeys.set(id, { box, forget });
  box.querySelector('.saved').onclick = () => {
    const shown = box.closest('tr'); // that of a newer list, perhaps
    forgetNewKey(id);
    saved(shown);
  };
  row.querySelector('.row-end').append(box);
  return box;
}

export function forgetNewKey(id) {
  const shown = newKeys.get(id);
  newKeys.delete(id);
  shown?.forget();
  shown?.box.remove();
}

export function forgetNewKeys() {
  for (const id of newKeys.keys()) forgetNewKey(id);
}

/** Into a newer list, or away with those whose key is in it no more. */
export function moveNewKeys(keys) {
  for (const [id, { box }] of newKeys) {
    const key = keys.find((listed) => listed.id === id);
    if (key) key.row.querySelector('.row-end').append(box);
    else forgetNewKey(id);
  }
}
