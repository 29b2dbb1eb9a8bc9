// Signs somebody in with a token: has the server verify it, asks first if something could be lost, and begins the
// session. Reads the claims only for display. Loads the operators' part for whoever has the claim of admins; the page of
// anybody else never asks for it.

import { focusOn, html } from '../../pages/widgets/draw.js';
import { busily, complaint, nameOf, setup } from '../../pages/widgets/parts.js';
import { typeHere } from './drafts.js';
import { dropKept, leaveButton } from './external-sign-in.js';
import { askToSignIn, forget, isKeyShown, isOwn, jsonIn, page, post, set, show } from './session.js';
import { shared } from './shared.js';

const TOKEN = /^[\w.~+/=-]+$/;

/** Returns the claim of exactly this name, else the one at a path with dots. */
const claimIn = (claims, name) =>
  Object.hasOwn(claims, name) ? claims[name] : name.split('.').reduce((inside, part) => inside?.[part], claims);

/** Returns the list in a claim, which is an array, or text separated by spaces. */
const listIn = (claim) => (typeof claim === 'string' ? claim.split(' ') : Array.isArray(claim) ? claim : []);

const isWord = (text) => typeof text === 'string' && text !== '';
/** Where the owner's name stands beside his id: `org_name` beside `org_id`. */
const OWNER_NAMES = /id$/i.test(setup.ownerClaim)
  ? ['name', 'slug'].map((end) => setup.ownerClaim.replace(/id$/i, end))
  : [];

function identityIn(token) {
  const { admin, ownerClaim, scopeClaim } = setup;
  const claims = jsonIn(token.split('.')[1]) ?? {};
  return {
    token,
    sub: claims.sub,
    owner: claimIn(claims, ownerClaim),
    called: [claims.name, claims.email].find(isWord),
    ownerCalled: OWNER_NAMES.map((name) => claimIn(claims, name)).find(isWord),
    isAdmin: admin !== null && listIn(claimIn(claims, admin.name)).includes(admin.value),
    grantable: scopeClaim === null ? null : listIn(claimIn(claims, scopeClaim)),
    isInTime: typeof claims.exp === 'number' && claims.exp * 1000 > Date.now(),
  };
}

const FOREIGN =
  'This token is not over, but it was not signed for this server: with another secret or key, for another address, or for later. Have it made again with its settings.';

function refuse(sentence) {
  if (page.session?.token === undefined) return askToSignIn(sentence);
  set({ notice: `The link that was opened signs nobody in, and you stay signed in. ${sentence}` });
}

/** What the server says of a workload's token, which was signed for this server, but as a key. */
const OF_KEY = 'an API key was sent';

/** Returns why a token signs nobody in, more exactly than the server tells strangers. */
function refusalOf({ sub, owner, isInTime }, { failure, problem }) {
  if (problem.code !== 'invalid_token' || !isInTime || failure.endsWith(OF_KEY)) return failure;
  if (isWord(sub) && isWord(owner)) return FOREIGN;
  return `This token signs nobody in: its claim ${isWord(sub) ? setup.ownerClaim : 'sub'} must be a text.`;
}

/** Returns whether a stranger's link could make somebody lose something, or unknowingly work for another person. */
const isAtStake = () => setup.app !== null || page.session !== null || isKeyShown() || !isOwn(page.task);

/** Signs in with a token. `isLink`: it came from a link that a stranger may have made. */
export const signIn = (token, isLink = false) =>
  busily('use token', async () => {
    if (!TOKEN.test(token)) return refuse('This is not a token.');
    const { session } = page;
    const who = identityIn(token);
    const isSame = isPerson(session, who);
    const result = await post('/tools/list_api_keys', token, {});
    if (page.session !== session) return;
    who.hasNone = result.output?.keys.length === 0;
    const asks = isLink && !isSame && isAtStake();
    const mustWork = asks || session?.token !== undefined;
    if (result.status === 401 || who.sub === undefined || (mustWork && result.output === null)) {
      return refuse(refusalOf(who, result));
    }
    if (asks) return set({ offer: who }, 'offer');
    begin(who, isSame, result);
  });

const isPerson = (known, { sub, owner }) => known?.sub === sub && known?.owner === owner;

/** Begins the person's session. `result` is the list of the person's keys, which is loaded if undefined. */
function begin(who, isSame, result) {
  dropKept();
  const back = isPerson(page.left, who) ? page.left : null;
  if (!isSame && back === null) forget();
  Object.assign(page, {
    session: Object.assign(isSame ? page.session : {}, who),
    why: null,
    offer: null,
    leaving: null,
    left: null,
  });
  // `result` may be older than what is shown of the very person by now.
  if (isSame && page.list !== null) void page.list.load();
  else show(result);
  if (!who.isAdmin) {
    page.part?.close();
    page.part = null;
  }
  void page.part?.refresh();
  welcome(who.hasNone, back);
}

/** Where a person goes on; the first that is there gets the focus. */
const NEXT = ['task', 'new key', 'go on', 'new', 'refresh'];

/** Draws the page, and focuses where the person continues: who has come `back`, with what was typed before. */
function welcome(isFirst, back) {
  const { made, task, list, session } = page;
  const isIdle = isFirst && task === null && made.length === 0;
  if (session.isAdmin && page.part === null) void loadPart(isIdle, back);
  const begins = isIdle && !session.isAdmin && list?.full() == null;
  set({ task: begins ? { create: true } : task });
  (begins ? ['name'] : NEXT).some(focusOn);
  typeHere(back?.place ? [] : back?.rows); // those rows are in the part for operators, which comes later
}

/**
 * Loads the part. `begins`: the person has no keys, and came for nothing else. `back`: what was left to sign in
 * (external-sign-in.js).
 */
async function loadPart(begins, back) {
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

function decline() {
  set({ offer: null, leaving: null }, ...NEXT);
  if (page.session === null) set({ why: '' }, 'sign-in');
}

const withName = (id, called) => html`${nameOf(id)}${called && called !== id && html` (${nameOf(called)})`}`;

/** Draws who is signed in, and for which owner, with the names that the token has. */
export const whoIs = ({ sub, called, owner, ownerCalled }) =>
  html`${withName(sub, called)}${owner !== sub && html`, for ${withName(owner, ownerCalled)}`}`;

/** Draws the question before a link signs in. Until it is answered, nothing changes. */
export function offerView(offer) {
  const { sub } = offer;
  const { session } = page;
  return html`<section class="card stack narrow" aria-labelledby="offer-title">
    <h2 id="offer-title" at="offer" tabindex="-1">Sign in as ${nameOf(sub)}?</h2>
    <p>
      A link was opened that signs in as ${whoIs(offer)}. Go on only if you know who made it: what you make then is
      theirs.
    </p>
    ${session !== null && html`<p>Now you are signed in as ${nameOf(session.sub)}.</p>`}
    ${isKeyShown() && html`<p class="warn">The new key that is shown below would be gone.</p>`}
    <div class="line">
      ${setup.app !== null && leaveButton()}
      <button at="accept" onclick=${() => begin(offer, false)}>Sign in as <bdi>${String(sub)}</bdi></button>
      <button at="decline" onclick=${decline}>No</button>
    </div>
    ${page.leaving?.view()}
  </section>`;
}
