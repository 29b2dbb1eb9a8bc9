// The page /keys: signs somebody in, calls the tools for the widgets, and makes keys. The token is in one variable.

import { byId, element, failureOf, icon, outputOf, showMessage, showName } from '../widgets/dom.js';
import { openParts, typeAgain, typedIn, wanted } from './form.js';
import { forPage, openFrame } from './frame.js';
import { openList } from './list.js';
import { failure, postTool } from './post-tool.js';
import { claimsOf, hasClaim, leaveFor, redeem, takeFromAddress, takeKept } from './sign-in.js';

const setup = JSON.parse(byId('setup').textContent);
const create = byId('create');

let session = {}; // the token while it is accepted, and whose it is
let view = ownKeys();
let list = null; // the frame of the list
let made = null; // that of a new key, while it is shown

function ownKeys() {
  return { tool: 'list_api_keys', args: {} };
}

const areOthers = ({ tool }) => tool === 'admin_list_keys';

/** Calls a tool; what it returns is what widgets take. */
async function callTool(tool, args) {
  const held = session;
  const { token } = held;
  if (token === undefined) {
    endSession('You are not signed in any more');
    return failure('Sign in again first.');
  }
  const { status, result } = await postTool(setup.url, token, tool, args);
  if (held !== session) return failure('You have signed out.');
  if (status === 401 && held.token === token) endSession(failureOf(result));
  return result;
}

/** Runs `work` once at a time, while its button says what it is doing. */
async function busy(button, doing, work) {
  if (button.ariaDisabled) return;
  const label = button.textContent;
  button.ariaDisabled = 'true';
  button.textContent = doing;
  try {
    await work();
  } finally {
    button.ariaDisabled = null;
    button.textContent = label;
  }
}

/** Shows the person's own keys, or those of others; `result`: what the tool has returned, if it was called. */
function show(next, result) {
  view = next;
  const { owner } = view.args;
  byId('own').ariaPressed = String(!areOthers(view));
  byId('all').ariaPressed = String(areOthers(view));
  byId('search').hidden = !areOthers(view);
  byId('new').hidden = areOthers(view) || made !== null;
  byId('revoke-all').hidden = owner === undefined;
  byId('ask').hidden = true;
  byId('status').textContent = '';
  if (owner !== undefined) for (const place of document.querySelectorAll('.wanted')) showName(place, owner);
  if (areOthers(view)) closeForm();
  list?.close();
  list = openList(byId('list-frame'), view, callTool, (sentence) => {
    byId('status').textContent = `The list could not be refreshed. ${sentence}`;
  });
  if (result) list.show(result);
  else void list.refresh();
}

function refresh() {
  byId('status').textContent = '';
  return list.refresh();
}

function ask() {
  byId('ask').hidden = false;
  byId('not-revoked').hidden = true;
  byId('keep-them').focus();
}

function closeQuestion() {
  if (byId('revoke-them').ariaDisabled) return; // the response comes first
  byId('ask').hidden = true;
  byId('revoke-all').focus();
}

async function revokeThem() {
  const asked = view;
  const result = await callTool('admin_revoke_keys', { owner: asked.args.owner });
  const { revoked } = outputOf(result) ?? {};
  if (view !== asked) return; // the keys of somebody else are shown meanwhile
  if (revoked === undefined) return complain('not-revoked', failureOf(result));
  show(view);
  byId('status').textContent = revoked === 1 ? '1 key revoked.' : `${revoked} keys revoked.`;
  byId('revoke-all').focus();
}

function complain(at, sentence) {
  byId(at).replaceChildren(icon('warn'), element('span', '', sentence));
  byId(at).hidden = false;
}

/** Offers the ways in; `sentence` says why, if there is something to say. */
function showSignIn(sentence) {
  byId('sign-in').hidden = false;
  byId('message').hidden = true;
  byId('why').hidden = true;
  if (!sentence) return;
  complain('why', sentence);
  byId('sign-in-title').focus();
}

function endSession(detail) {
  session.token = undefined;
  list?.abandon();
  showSignIn(byId('keys').hidden ? detail : `${detail}. Sign in again: what you have typed is kept.`);
}

function forget() {
  session = {};
  view = ownKeys();
  list?.close();
  made?.close();
  list = made = null;
  create.reset();
  byId('search').reset();
  closeForm();
  for (const id of ['keys', 'who', 'made']) byId(id).hidden = true;
}

async function signIn(token) {
  if (!/^[\w.~+/=-]+$/.test(token)) return showSignIn('This is not a token.');
  const claims = claimsOf(token);
  const { sub, [setup.ownerClaim]: owner } = claims;
  if (session.sub !== undefined && (session.sub !== sub || session.owner !== owner)) forget();
  Object.assign(session, { token, sub, owner });
  byId('why').hidden = true;
  if (!byId('use-token').ariaDisabled) showMessage('Signing in…'); // the button says so, too
  const held = session;
  const isAdmin = hasClaim(claims, setup.admin);
  const shown = isAdmin ? view : ownKeys();
  const result = await callTool(shown.tool, shown.args);
  if (held !== session || session.token === undefined) return; // refused, and said so
  if (sub === undefined) return endSession(failureOf(result));
  byId('token').value = '';
  byId('sign-in').hidden = byId('message').hidden = true;
  byId('keys').hidden = byId('who').hidden = false;
  showName(byId('user'), String(sub));
  showName(byId('owner'), String(owner));
  byId('owner-of').hidden = owner === sub;
  byId('views').hidden = !isAdmin;
  if (list !== null && shown.tool === view.tool) list.show(result);
  else show(shown, result);
  if (made !== null) byId('made').focus();
  else if (!create.hidden) byId('go').focus();
  else if (areOthers(view)) byId('all').focus();
  else if (outputOf(result)?.keys?.length === 0) openForm();
  else byId('new').focus();
}

function openForm() {
  create.hidden = false;
  byId('new').ariaExpanded = 'true';
  byId('name').focus();
}

function closeForm() {
  create.hidden = true;
  byId('refused').hidden = true;
  byId('new').ariaExpanded = 'false';
}

async function make() {
  const held = session;
  byId('refused').hidden = true;
  const result = await callTool('create_api_key', wanted(create));
  if (held !== session) return; // it was somebody else's
  if (typeof outputOf(result)?.key !== 'string') {
    if (session.token !== undefined) complain('refused', failureOf(result));
    return;
  }
  create.reset();
  closeForm();
  byId('new').hidden = true;
  byId('made').hidden = false;
  byId('made').focus();
  made = openFrame('created', byId('made-frame'), callTool);
  made.show(forPage(result, { serverUrl: setup.url }));
  void refresh();
}

function closeMade() {
  made.close();
  made = null;
  byId('made').hidden = true;
  byId('new').hidden = areOthers(view);
  byId(areOthers(view) ? 'all' : 'new').focus();
}

function linkTo(url) {
  const link = element('a', '', url);
  link.href = url;
  return link;
}

async function comeBack(query, kept) {
  showMessage('Signing in…');
  try {
    await signIn(await redeem(setup.issuer, setup.page, query, kept));
  } catch (error) {
    showSignIn(error.message);
  }
}

async function leave() {
  try {
    await leaveFor(setup.issuer, setup.page, create.hidden ? null : typedIn(create));
  } catch {
    showSignIn('This browser does not let the page sign in: it needs HTTPS, and sessionStorage.');
  }
}

function listen() {
  byId('by-token').onsubmit = (event) => {
    event.preventDefault();
    busy(byId('use-token'), 'Signing in…', () => signIn(byId('token').value.trim()));
  };
  create.onsubmit = (event) => {
    event.preventDefault();
    busy(byId('go'), 'Creating…', make);
  };
  create.addEventListener('invalid', openParts, true); // that event does not bubble
  if (byId('leave')) byId('leave').onclick = leave;
  byId('new').onclick = () => (create.hidden ? openForm() : closeForm());
  byId('cancel').onclick = () => {
    closeForm();
    byId('new').focus();
  };
  byId('saved').onclick = closeMade;
  byId('refresh').onclick = () => busy(byId('refresh'), 'Refreshing…', refresh);
  byId('own').onclick = () => areOthers(view) && show(ownKeys());
  byId('all').onclick = () => areOthers(view) || show({ tool: 'admin_list_keys', args: {} });
  byId('search').onsubmit = (event) => {
    event.preventDefault();
    const owner = byId('owner-wanted').value;
    show({ tool: 'admin_list_keys', args: owner === '' ? {} : { owner } });
  };
  byId('revoke-all').onclick = ask;
  byId('keep-them').onclick = closeQuestion;
  byId('ask').onkeydown = ({ key }) => key === 'Escape' && closeQuestion();
  byId('revoke-them').onclick = () => busy(byId('revoke-them'), 'Revoking…', revokeThem);
  byId('sign-out').onclick = () => location.reload(); // the browser, too, forgets how the page was opened
  window.onhashchange = () => {
    const { token } = takeFromAddress();
    if (token !== null) signIn(token);
  };
  window.onpagehide = forget; // a browser may keep the page, to come back to
  window.onpageshow = ({ persisted }) => persisted && location.reload();
}

/** Why nothing may be sent from here, as a sentence; null: it may. */
function refusal() {
  const { page, isSecure } = setup;
  if (!isSecure) {
    const where = page.startsWith('https:')
      ? [' Go to ', linkTo(page)]
      : [' Ask whoever runs this server for its address.'];
    return ['This page needs HTTPS, and sends nothing without it.', ...where];
  }
  const isHere = location.origin + location.pathname.replace(/\/$/, '') === page;
  return isHere ? null : ['This server has its page at another address: ', linkTo(page)];
}

function start() {
  window.onhashchange = takeFromAddress;
  const { token, query } = takeFromAddress();
  const kept = takeKept();
  const refused = refusal();
  if (refused !== null) return showMessage(element('span', '', ...refused), true);
  listen();
  if (kept?.typed) {
    typeAgain(create, kept.typed);
    openForm();
  }
  if (token !== null) return signIn(token);
  if (setup.issuer?.endpoints && (query.has('code') || query.has('error'))) return comeBack(query, kept);
  showSignIn();
}

start();
