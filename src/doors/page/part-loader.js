// Loads the operators' part for whoever has the claim of admins; the page of anybody else never asks for it.

import { complaint, setup } from '../../pages/widgets/parts.js';
import { typeHere } from './drafts.js';
import { page, set } from './session.js';
import { shared } from './shared.js';

/** Drops the part: the person is no admin any more. */
export function dropPart() {
  page.part?.close();
  page.part = null;
}

/**
 * Loads the part. `begins`: the person has no keys, and came for nothing else. `back`: what was left to sign in
 * (external-sign-in.js).
 */
export async function loadPart(begins, back) {
  const { session, task } = page;
  try {
    const { default: open } = await import(`${setup.url}/keys/operators.js`);
    if (page.session !== session || page.part !== null) return;
    page.part = open(shared)();
    set({});
    if (page.task !== task) return; // the person has begun something meanwhile
    const place = back?.place ?? (begins && {});
    if (place) await page.part.show(place);
    if (back?.place) typeHere(back.rows);
  } catch (error) {
    reportError(error);
    set({ notice: complaint('The part for operators could not be loaded. Reload the page to try again.') });
  }
}
