// Keeps what is typed while its form isn't there: the person is away to sign in, or decides what a link asks for.

import { find } from '../../pages/widgets/draw.js';
import { typeAgain, typedIn } from './key-form.js';
import { page } from './session.js';

/** Returns the task, with what is typed for it, and what is typed in the edits of open rows. */
export function typedHere() {
  const decided = document.getElementById('decided'); // missing after a failed sign-in
  const task = decided === null ? page.task : { ...page.task, typed: typedIn(decided) };
  const rows = [...document.querySelectorAll('form[data-at^="edit "]')].map((form) => ({
    id: form.dataset.at.slice(5), // after `edit `
    edit: form.getAttribute('name'),
    typed: typedIn(form),
  }));
  return { task, rows };
}

/** Types it again where it was: for the task that is shown, and in `rows`, which are opened if need be. */
export function typeHere(rows = []) {
  const { task } = page;
  const decided = document.getElementById('decided');
  if (task?.typed && decided !== null) {
    typeAgain(decided, task.typed);
    task.typed = undefined; // what is typed from now on stays
  }
  for (const { id, edit, typed } of rows) {
    const opener = find(`details ${id}`);
    if (opener?.getAttribute('aria-expanded') === 'false') opener.click();
    find(`${edit} ${id}`)?.click();
    const form = find(`edit ${id}`); // missing if it can't be edited so any more
    if (form !== null) typeAgain(form, typed);
  }
}
