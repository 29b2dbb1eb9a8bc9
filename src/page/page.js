// The page /keys: signs somebody in, calls the tools for the widgets, and makes keys. The token is in one variable.

import { byId, element, FOR_WIDGET, icon, outputOf, showMessage, showName } from '../widgets/dom.js';
import { hostWidget } from '../widgets/host.js';
import { claimsOf, leaveFor, redeem, takeKept } from './sign-in.js';

const CALL_MS = 75_000; // a tool has 60 s
const DAYS = [7, 30, 90, 365];
const setup = JSON.parse(byId('setup').textContent);
const create = byId('create');

let session = {}; // the token while it is accepted, and whose it is
let view = ownKeys();
let list = null; // the frame of the list
let made = null; // that of a new key, while it is shown

function ownKeys() {
  return { tool: 'list_api_keys', args: {} };
}

const failure = (...texts) => ({ isError: true, content: texts.map((text) => ({ type: 'text', text })) });

/** Calls a tool; what it returns is what widgets take. */
async function callTool(tool, args) {
  const held = session;
  const { token } = held;
  if (token === undefined) return failure('Sign in again first.');
  try {
    const response = await fetch(`${setup.url}/tools/${tool}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(args),
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
      signal: AbortSignal.timeout(CALL_MS),
    });
    const body = await response.json();
    if (held !== session) return failure('You have signed out.');
    if (response.ok) return { structuredContent: body };
    const { detail, code, issues = [], previousUntil } = body;
    if (response.status === 401 && held.token === token) endSession(detail);
    const waitS = response.headers.get('Retry-After');
    const more = issues.map(({ path, message }) => `${path}: ${message}`);
    if (waitS !== null) more.push(`Try again in ${waitS} s`);
    return { ...failure(detail, ...more), _meta: { [FOR_WIDGET]: { code, previousUntil } } };
  } catch {
    return failure('No answer came. It may have worked all the same: refresh the list to see.');
  }
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
  const shown = forPage(result, { onPage: true });
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
  const { sub, [setup.claims.owner]: owner } = claims;
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

/** What the form asks for, as the input of create_api_key. */
function wanted() {
  const typed = new FormData(create);
  const scopes = setup.scopes === null ? typed.get('scopes').split(/\s+/).filter(Boolean) : typed.getAll('scope');
  const days = typed.get('days');
  return { name: typed.get('name'), scopes, ...(days !== '' && { expiresInDays: Number(days) }) };
}

async function make() {
  const go = byId('go');
  if (go.ariaDisabled) return;
  go.ariaDisabled = 'true';
  go.textContent = 'Creating…';
  byId('refused').hidden = true;
  const result = await callTool('create_api_key', wanted());
  go.ariaDisabled = null;
  go.textContent = 'Create key';
  if (typeof outputOf(result)?.key !== 'string') {
    const { content = [] } = result;
    if (session.token !== undefined) complain('refused', content.map(({ text }) => text).join('. '));
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

const typedInForm = () => [...new FormData(create)];

function typeAgain(typed) {
  for (const field of create.elements) {
    const values = typed.filter(([name]) => name === field.name).map(([, value]) => value);
    if (field.type === 'checkbox') field.checked = values.includes(field.value);
    else if (values.length > 0) field.value = values[0];
  }
}

function fillForm() {
  const { scopes, daysMax } = setup;
  byId('scopes-typed').hidden = scopes !== null;
  byId('scopes-chosen').hidden = scopes === null;
  for (const scope of scopes ?? []) {
    const box = element('input', '');
    Object.assign(box, { type: 'checkbox', name: 'scope', value: scope });
    byId('choices').append(element('label', '', box, element('bdi', '', scope)));
  }
  const offered = daysMax === null ? DAYS : [...new Set([...DAYS.filter((days) => days < daysMax), daysMax])];
  const words = (days) => (days === 365 ? 'in a year' : days === 1 ? 'in a day' : `in ${days} days`);
  byId('days').append(...offered.map((days) => new Option(words(days), days, days === 90, days === 90)));
  if (daysMax === null) byId('days').append(new Option('never', ''));
}

/** Takes what came with the address off it at once. */
function takeFromAddress() {
  const { hash, search, pathname } = location;
  if (hash !== '' || search !== '') history.replaceState(null, '', pathname);
  return { token: new URLSearchParams(hash.slice(1)).get('token'), query: new URLSearchParams(search) };
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
    await leaveFor(setup.issuer, setup.page, create.hidden ? null : typedInForm());
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
  byId('leave').onclick = leave;
  byId('new').onclick = () => (create.hidden ? openForm() : closeForm());
  byId('cancel').onclick = () => {
    closeForm();
    byId('new').focus();
  };
  byId('saved').onclick = closeMade;
  byId('refresh').onclick = refresh;
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
  byId('host').textContent = `at ${new URL(setup.url).host}`;
  if (!setup.isSecure) return showAddress('This page needs HTTPS, and sends nothing without it. Try');
  if (location.origin + location.pathname.replace(/\/$/, '') !== setup.page) {
    return showAddress('This server has its page at another address:');
  }
  const { issuer, mints } = setup;
  byId('by-issuer').hidden = issuer === null;
  byId('away').hidden = issuer === null || issuer.endpoints !== null;
  byId('leave').hidden = !byId('away').hidden;
  byId('by-link').hidden = !mints;
  for (const place of document.querySelectorAll('.issuer')) place.textContent = issuer?.name;
  fillForm();
  listen();
  if (kept?.typed) {
    typeAgain(kept.typed);
    create.hidden = false;
  }
  if (token !== null) return signIn(token);
  if (issuer?.endpoints && (query.has('code') || query.has('error'))) return comeBack(query, kept);
  showSignIn();
}

start();
