// The search of the operator's page: for an owner, for a key by its id or fingerprint, or for a whole key, of which only
// the fingerprint leaves the page.

import { change, html } from '../../pages/widgets/draw.js';
import { KEY, oddWords } from '../../pages/widgets/keys-list.js';
import { busily, complaint, toldView, workButton } from '../../pages/widgets/parts.js';
import { callTool, hashOf } from './shared-by-page.js';

const MEANINGS = { owner: 'Owner, exactly', key: 'Key id or fingerprint', whole: 'A whole key' };
/** Most of a key of this server: whoever cuts one off must not send it as a name. */
const PART = /[a-z0-9]{2,12}_(?:live|test)_[0-9a-f]{24}/;
const OWNER_CHARS_MAX = 255;
const FINGERPRINT_DIGITS = 12;
const NONE = 'No key of any owner.';
const ID = /^(?:[0-9a-f]{12}|[0-9a-f]{32})$/i;

/** Creates the search. `open(owner, key, said)` opens an owner, with a row. `shown()` is what the person looks at. */
export function operatorSearch({ open, shown }) {
  const search = { meaning: 'owner', said: '' };
  const say = (said) => change(search, { said });

  /** Opens the only key that the fields of admin_list_keys name, or says that there is none, and `more`. */
  async function findBy(fields, more = '') {
    const before = shown();
    const { output, failure } = await callTool('admin_list_keys', fields);
    if (shown() !== before) return say(''); // the person has gone on
    if (output === null) return say(complaint(failure));
    const { keys } = output;
    if (keys.length === 0) return say(NONE + more);
    say('');
    const [{ owner, childId }] = keys;
    const one = childId === undefined ? '' : 'What you looked for is a key that it has made for a program.';
    open(owner, keys[0], keys.length === 1 ? one : `The first of ${keys.length} keys with this fingerprint.`);
  }

  async function findWhole(text) {
    say('Looking for it…');
    const hash = await hashOf(text);
    if (hash === null) return say(complaint('This browser can’t tell: it needs HTTPS.'));
    const odd = ID.test(text) ? ' An id or a fingerprint is another choice.' : oddWords(text);
    await findBy({ fingerprint: hash.slice(0, FINGERPRINT_DIGITS) }, odd);
  }

  /** Finds by a typed text, as it is meant. Nothing but an owner's name, an id or a fingerprint is sent. */
  function find(typed) {
    const text = typed.trim();
    const [key] = KEY.exec(text) ?? [];
    if (text === '') return say('');
    if (key !== undefined || search.meaning === 'whole') return findWhole(key ?? text);
    if (PART.test(text)) return say(`This was not sent.${oddWords(text)}`);
    if (search.meaning === 'key') {
      const hex = text.toLowerCase();
      if (!ID.test(hex)) return say('An id has 32 hex digits, and a fingerprint 12.');
      return findBy(hex.length === FINGERPRINT_DIGITS ? { fingerprint: hex } : { keyId: hex });
    }
    if ([...typed].length > OWNER_CHARS_MAX) return say(`An owner has at most ${OWNER_CHARS_MAX} characters.`);
    say('');
    open(typed);
  }
  /** Takes the text of the field, which keeps no key, whatever else is being looked for. */
  function findBusily(field) {
    const { value } = field;
    if (search.meaning === 'whole' || PART.test(value)) field.value = '';
    return busily('find', async () => find(value));
  }
  /** Takes a key of this server out of the field as soon as it is there. */
  const type = ({ target }) => KEY.test(target.value) && findBusily(target);
  const mean = ({ target }) => change(search, { meaning: target.value, said: '' });

  return {
    /** Looks for a key of this server that was pasted elsewhere. */
    seek: (key) => busily('find', () => findWhole(key)),
    view: () => html`<form role="search" class="field" at="operator search" onsubmit=${({ target }) => findBusily(target.elements.wanted)}>
      <div class="line tools">
        <select at="meaning" aria-label="Search for" onchange=${mean}>
          ${Object.entries(MEANINGS).map(([meaning, label]) => html`<option value=${meaning} selected=${meaning === search.meaning}>${label}</option>`)}
        </select>
        <div class="line wide"><input name="wanted" at="wanted" aria-label=${MEANINGS[search.meaning]} autocomplete="off" autocapitalize="off"
          oninput=${type} />
        ${workButton({ at: 'find', label: 'Find', doing: 'Looking…' })}</div>
      </div>
      ${toldView(search.said)}
    </form>`,
  };
}
