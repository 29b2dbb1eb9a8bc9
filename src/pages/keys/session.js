// Who is signed in on the page, the list of keys that is shown, and the way to the tools. The token is in one variable.

import { focusOn } from '../widgets/draw.js';
import { html } from '../widgets/html.js';
import { keysList } from '../widgets/keys-list.js';
import { complaint, formatsOf, nameOf, setup } from '../widgets/parts.js';
import { failed } from '../widgets/results.js';
import { typeAgain } from './key-form.js';
import { areOthers, OWN } from './others.js';
import { post } from './post.js';
import { claimsOf, hasClaim, isInTime, listIn } from './sign-in.js';

export const formats = formatsOf({ locale: navigator.language });

/** All that the page shows follows from this. */
export const page = {
  session: null, // who is signed in; its token is undefined once it is accepted no more
  why: null, // why somebody has to sign in; '': because nobody has; null: nobody has to
  view: OWN, // the tool that lists, and its arguments
  list: null,
  instead: '', // in place of a list that could not be had
  asked: null, // the latest request for a list, while it is on its way
  made: null, // a new key, while it is shown
  errand: null, // what the person came to decide (errand.js)
  form: null, // { failure } while a key is being described
  typed: null, // what was typed before the person went to sign in
  question: null, // while all keys of an owner may be revoked (question.js)
  notice: '',
  doing: new Set(), // names of buttons that are at work
  redraw() {},
};

/** Changes what the page shows, and gives the focus to the first of `places` that there is. */
export function set(changed, ...places) {
  Object.assign(page, changed);
  page.redraw();
  places.some(focusOn);
}

/** Runs `work` once at a time, while its button says what it is doing. */
export async function busily(button, work) {
  const { doing } = page;
  if (doing.has(button)) return;
  set({ doing: doing.add(button) });
  try {
    await work();
  } finally {
    doing.delete(button);
    page.redraw();
  }
}

export function askToSignIn(sentence) {
  set({ why: sentence }, sentence === '' ? '' : 'sign-in');
}

function endSession(detail) {
  page.session.token = undefined;
  page.asked = null;
  askToSignIn(`${detail}. Sign in again: what you have typed is kept.`);
}

/** Nothing of the person before stays. */
export function forget() {
  page.list?.close();
  page.made?.close();
  const nothing = { session: null, list: null, made: null, form: null, question: null, asked: null };
  Object.assign(page, nothing, { view: OWN, instead: '', notice: '' });
}

/** What became of sending `body` (results.js). */
export async function request(path, body) {
  const { session } = page;
  const { token } = session;
  if (token === undefined) {
    endSession('You are not signed in any more');
    return failed('Sign in again first.');
  }
  const result = await post(setup.url + path, token, body);
  if (page.session !== session) return failed('You have signed out.');
  if (result.status === 401 && session.token === token) endSession(result.failure);
  return result;
}

const pathOf = (tool) => `/tools/${encodeURIComponent(tool)}`;

export async function callTool(tool, args) {
  const result = await request(pathOf(tool), args);
  if (page.asked !== null && tool !== page.view.tool) void refresh(); // what it says may be over
  return result;
}

/** Shows the keys of `view`; `result`: what its tool has returned, if it was called. */
export function show(view, result) {
  const { owner } = view.args;
  const isOwn = !areOthers(view);
  page.list?.close();
  const list = keysList({
    callTool,
    source: view,
    heading: 'h2',
    title: isOwn ? 'Your keys' : owner === undefined ? 'All keys' : ['Keys of ', nameOf(owner)],
    none: {
      title: isOwn ? 'No API keys yet' : 'No API keys',
      hints: isOwn && html`<p class="hint">A key lets a program call this server on your behalf.</p>`,
    },
    refused: setup.refused,
    serverUrl: setup.url,
    scrolls: false,
    formats,
    redraw: page.redraw,
  });
  const form = isOwn ? page.form : null;
  Object.assign(page, { view, list, form, instead: 'Loading keys…', notice: '', asked: null, question: null });
  if (result) take(result);
  else void refresh();
}

/** A failure takes no list away, because a new key may stand in it. */
function take({ output, failure }) {
  if (output !== null) {
    page.instead = '';
    return page.list.take(output);
  }
  if (page.instead === '') set({ notice: `The list could not be refreshed. ${failure}` });
  else set({ instead: complaint(`No keys to show. ${failure}`) });
}

/** What comes is shown, unless it was asked for again meanwhile, or another view was. */
export async function refresh(notice = '') {
  const latest = {};
  set({ asked: latest, notice });
  const result = await callTool(page.view.tool, page.view.args);
  if (page.asked !== latest) return;
  page.asked = null;
  take(result);
}

const FOREIGN =
  'This token is not over, but it was not signed for this server: with another secret, or for another address. Have it made again where this server runs, with the settings of this server.';

function refuse(sentence) {
  if (page.session?.token === undefined) return askToSignIn(sentence);
  set({ notice: `The link that was opened signs nobody in, and you stay signed in. ${sentence}` });
}

/** A token is verified before anything is forgotten: whoever made the link may be a stranger. */
export const signIn = (token) =>
  busily('use token', async () => {
    if (!/^[\w.~+/=-]+$/.test(token)) return refuse('This is not a token.');
    const { session } = page;
    const claims = claimsOf(token);
    const { sub, [setup.ownerClaim]: owner } = claims;
    const isSame = session?.sub === sub && session?.owner === owner;
    const isAdmin = hasClaim(claims, setup.admin);
    const view = isSame && isAdmin ? page.view : OWN;
    const result = await post(setup.url + pathOf(view.tool), token, view.args);
    if (page.session !== session) return;
    const isLive = session?.token !== undefined;
    if (result.status === 401 || sub === undefined || (isLive && !isSame && result.output === null)) {
      return refuse(result.problem.code === 'invalid_token' && isInTime(claims) ? FOREIGN : result.failure);
    }
    if (!isSame) forget();
    const grantable = setup.scopeClaim === null ? null : listIn(claims[setup.scopeClaim]);
    page.session = Object.assign(isSame ? session : {}, { token, sub, owner, isAdmin, grantable });
    page.why = null;
    if (page.list !== null && view === page.view) take(result);
    else show(view, result);
    welcome(result.output?.keys.length === 0);
  });

const tabs = new BroadcastChannel('mcp-key-server/errand');

/** A link that signs in may open in a tab of its own: what the person came to decide follows them there. */
tabs.onmessage = ({ data: errand }) => {
  const { session } = page;
  if (errand === null && session === null && page.errand !== null) tabs.postMessage(page.errand);
  if (errand !== null && session?.token !== undefined && page.errand === null) set({ errand }, 'errand');
};

/** Where the person goes on. */
function welcome(isFirst) {
  const { typed, made, view, errand } = page;
  const hasNone = isFirst && errand === null;
  if (errand === null) tabs.postMessage(null);
  if (errand === null && (typed !== null || (hasNone && made === null && !areOthers(view)))) page.form ??= {};
  set({ typed: null });
  if (typed !== null) typeAgain(document.getElementById('create'), typed);
  ['errand', 'new key', typed === null && hasNone ? 'name' : 'create', 'all', 'new'].some(focusOn);
}
