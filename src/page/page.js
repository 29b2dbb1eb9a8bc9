// The page /keys: signs somebody in, calls the tools for the widgets, and makes keys. The token is in one variable.

import { byId, element, FOR_WIDGET, failureOf, icon, outputOf, showMessage, showName } from '../widgets/dom.js';
import { hostWidget } from '../widgets/host.js';
import { typeAgain, typedIn, wanted } from './form.js';
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

/** Calls a tool; what it returns is what widgets take. */
async function callTool(tool, args) {
  const held = session;
  const { token } = held;
  if (token === undefined) return failure('Sign in again first.');
  const { status, result } = await postTool(setup.url, token, tool, args);
  if (held !== session) return failure('You have signed out.');
  if (status === 401 && held.token === token) endSession(failureOf(result));
  return result;
}

function openFrame(template, holder, ready) {
  const frame = byId(template).content.firstElementChild.cloneNode(true);
  const talk = hostWidget(frame, {
    hello: () => ({
      hostInfo: { name: document.title, version: '1.0.0' },
      hostCapabilities: { serverTools: {} },
      hostContext: { locale: navigator.language, timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone },
    }),
    ready: () => ready(talk),
    call: ({ name, arguments: args }) => callTool(name, args),
    resized: ({ height }) => {
      frame.style.height = `${height}px`;
    },
  });
  holder.replaceChildren(frame);
  const close = () => {
    talk.close();
    frame.remove();
  };
  return { ...talk, close };
}

/** A result with what the page adds for its widgets. */
const forPage = (result, added) => ({
  ...result,
  _meta: { [FOR_WIDGET]: { ...result._meta?.[FOR_WIDGET], ...added } },
});

async function refresh() {
  const { tool, args } = view;
  const result = await callTool(tool, args);
  if (session.token !== undefined) showList(result);
}

function showList(result) {
  const shown = forPage(result, { onPage: view });
  if (list !== null) return list.show(shown);
  let show = () => {};
  let latest = shown;
  const talk = openFrame('listed', byId('list-frame'), ({ notify }) => {
    show = () => notify('tool-result', latest);
    show();
  });
  const showNext = (next) => {
    latest = next;
    show();
  };
  list = { ...talk, show: showNext };
}

/** Shows the person's own keys, or those of others. */
function show(next) {
  view = next;
  const { tool, args } = next;
  const areOthers = tool === 'admin_list_keys';
  byId('own').ariaPressed = String(!areOthers);
  byId('all').ariaPressed = String(areOthers);
  byId('search').hidden = !areOthers;
  byId('new').hidden = areOthers || made !== null;
  byId('revoke-all').hidden = args.owner === undefined;
  byId('ask').hidden = true;
  byId('status').textContent = '';
  for (const place of document.querySelectorAll('.wanted')) showName(place, args.owner ?? '');
  if (areOthers) closeForm();
  list?.close();
  list = null;
  return refresh();
}

async function revokeThem() {
  const { owner } = view.args;
  const result = await callTool('admin_revoke_keys', { owner });
  const { revoked } = outputOf(result) ?? {};
  await show(view);
  byId('status').textContent =
    revoked === undefined ? failureOf(result) : revoked === 1 ? '1 key revoked.' : `${revoked} keys revoked.`;
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
  if (sentence) {
    byId('why').className = 'sentence bad';
    complain('why', sentence);
    byId('sign-in-title').focus();
  }
}

function endSession(detail) {
  session.token = undefined;
  const isNew = byId('keys').hidden;
  showSignIn(isNew ? detail : `${detail}. Sign in again: what you have typed is kept.`);
}

function forget() {
  session = {};
  view = ownKeys();
  list?.close();
  made?.close();
  list = made = null;
  create.reset();
  for (const id of ['keys', 'who', 'create', 'made', 'refused']) byId(id).hidden = true;
}

async function signIn(token) {
  const claims = claimsOf(token);
  const { sub, [setup.ownerClaim]: owner } = claims;
  if (session.sub !== undefined && (session.sub !== sub || session.owner !== owner)) forget();
  Object.assign(session, { token, sub, owner });
  byId('why').hidden = true;
  showMessage('Signing in…');
  const held = session;
  const result = await callTool('list_api_keys', {});
  if (held !== session || session.token === undefined) return; // refused, and said so
  byId('token').value = '';
  byId('sign-in').hidden = byId('message').hidden = true;
  byId('keys').hidden = byId('who').hidden = false;
  showName(byId('user'), String(sub));
  showName(byId('owner'), String(owner));
  byId('owner-of').hidden = owner === sub;
  byId('views').hidden = !hasClaim(claims, setup.admin);
  showList(result);
  if (made !== null) byId('made').focus();
  else if (!create.hidden) byId('go').focus();
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
  const go = byId('go');
  if (go.ariaDisabled) return;
  go.ariaDisabled = 'true';
  go.textContent = 'Creating…';
  byId('refused').hidden = true;
  const result = await callTool('create_api_key', wanted(create));
  go.ariaDisabled = null;
  go.textContent = 'Create key';
  if (typeof outputOf(result)?.key !== 'string') {
    if (session.token !== undefined) complain('refused', failureOf(result));
    return;
  }
  create.reset();
  closeForm();
  byId('new').hidden = true;
  byId('made').hidden = false;
  byId('made').focus();
  made = openFrame('created', byId('made-frame'), ({ notify }) =>
    notify('tool-result', forPage(result, { serverUrl: setup.url })),
  );
  await refresh();
}

function closeMade() {
  made.close();
  made = null;
  byId('made').hidden = true;
  byId('new').hidden = false;
  byId('new').focus();
}

/** Says, in place of everything else, where this page works. */
function showAddress(sentence) {
  const link = element('a', '', setup.page);
  link.href = setup.page;
  showMessage(element('span', '', `${sentence} `, link), true);
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
    const token = byId('token').value.trim();
    if (/^[\w.~+/=-]+$/.test(token)) signIn(token);
    else showSignIn('This is not a token.');
  };
  create.onsubmit = (event) => {
    event.preventDefault();
    make();
  };
  if (byId('leave')) byId('leave').onclick = leave;
  byId('new').onclick = () => (create.hidden ? openForm() : closeForm());
  byId('cancel').onclick = () => {
    closeForm();
    byId('new').focus();
  };
  byId('saved').onclick = closeMade;
  byId('refresh').onclick = refresh;
  byId('own').onclick = () => show(ownKeys());
  byId('all').onclick = () => show({ tool: 'admin_list_keys', args: {} });
  byId('search').onsubmit = (event) => {
    event.preventDefault();
    const owner = byId('owner-wanted').value;
    show({ tool: 'admin_list_keys', args: owner === '' ? {} : { owner } });
  };
  byId('revoke-all').onclick = () => {
    byId('ask').hidden = false;
    byId('keep-them').focus();
  };
  byId('keep-them').onclick = () => {
    byId('ask').hidden = true;
    byId('revoke-all').focus();
  };
  byId('revoke-them').onclick = revokeThem;
  byId('sign-out').onclick = () => location.reload(); // the browser, too, forgets how the page was opened
  window.onhashchange = () => {
    const { token } = takeFromAddress();
    if (token !== null) signIn(token);
  };
  window.onpagehide = forget; // a browser may keep the page, to come back to
  window.onpageshow = ({ persisted }) => persisted && location.reload();
}

function start() {
  const { token, query } = takeFromAddress();
  const kept = takeKept();
  if (!setup.isSecure) return showAddress('This page needs HTTPS, and sends nothing without it. Try');
  if (location.origin + location.pathname.replace(/\/$/, '') !== setup.page) {
    return showAddress('This server has its page at another address:');
  }
  const { issuer } = setup;
  listen();
  if (kept?.typed) {
    typeAgain(create, kept.typed);
    create.hidden = false;
  }
  if (token !== null) return signIn(token);
  if (issuer?.endpoints && (query.has('code') || query.has('error'))) return comeBack(query, kept);
  showSignIn();
}

start();
