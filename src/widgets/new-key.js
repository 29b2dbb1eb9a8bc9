// A new key on the page: masked until it is asked for, copied without being shown, and forgotten when that is called for.
// The key stands in the page only while it is shown, and in no RegExp, because RegExp.lastMatch would keep it.

import { element, icon } from './dom.js';

const COPIED_MS = 2000;

/**
 * Shows `secret` in `boxes`, each `{ code, copy, status, before, after }`: where it stands, the button that copies it,
 * where to say what came of that, and the text around it, if there is any. The button `toggle` shows and hides it in all of them.
 */
export function showSecret(secret, { toggle, boxes, isShown = false }) {
  let held = secret; // here and, while shown, in the page; nowhere else

  // As many dots as the key has characters: nothing moves when it is shown.
  function write({ code, before = '', after = '' }, shown) {
    const prefix = before + held.slice(0, held.lastIndexOf('_') + 1);
    const dots = element('span', '', '•'.repeat(before.length + held.length - prefix.length));
    dots.ariaHidden = 'true';
    const masked = [prefix, dots, element('span', 'sr', 'hidden'), after];
    code.replaceChildren(...(shown ? [element('span', '', before + held + after)] : masked));
    code.classList.toggle('masked', !shown);
  }

  function setShown(shown) {
    for (const box of boxes) {
      write(box, shown);
      box.status.replaceChildren();
    }
    toggle.textContent = shown ? 'Hide' : 'Show';
    toggle.ariaLabel = shown ? 'Hide key' : 'Show key';
    toggle.onclick = () => setShown(!shown);
  }

  async function copy({ code, copy: button, status, before = '', after = '' }) {
    try {
      await navigator.clipboard.writeText(before + held + after);
    } catch {
      if (held === null) return; // forgotten meanwhile
      setShown(true);
      getSelection().selectAllChildren(code);
      const chord = /Mac/.test(navigator.platform) ? '⌘C' : 'Ctrl+C';
      const next = matchMedia('(pointer: coarse)').matches ? 'touch and hold it' : `press ${chord}`;
      status.classList.remove('sr');
      status.textContent = `It could not be copied from here. It is selected: ${next}.`;
      return;
    }
    if (held === null) return;
    const done = element('span', 'label', 'Copied');
    const copied = new Text('Copied. Paste it where it is kept safe.');
    button.replaceChildren(icon('done'), done);
    status.classList.add('sr'); // the button shows it, and nothing moves
    status.replaceChildren(copied);
    setTimeout(() => {
      if (done.isConnected) button.replaceChildren(icon('copy'), element('span', 'label', 'Copy'));
      copied.remove();
    }, COPIED_MS);
  }

  for (const box of boxes) box.copy.onclick = () => copy(box);
  setShown(isShown);

  return function forget() {
    held = null;
    getSelection().removeAllRanges();
    for (const { code, copy: button, status } of boxes) {
      button.onclick = null;
      code.replaceChildren();
      status.replaceChildren();
    }
    toggle.onclick = null;
  };
}
