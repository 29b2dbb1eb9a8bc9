// Renders the pages of /authorize: one asks for a key and says who gets it, one says why nobody does. They have no
// script and no cookie. They show parts of the request as text, but never the key.

import { isLoopbackRedirect } from '../../config/redirects.ts';
import { escaped, inlineHashes } from '../../ground/html.ts';
import { SERVER_NAME } from '../../ground/server-info.ts';
import { THIS_SERVER } from '../../keys/audience.ts';
import { HEAD } from '../../pages/document.ts';
import { type AuthorizationRequest, hostOf, parametersOf } from './authorization-request.ts';

/** The page's policy, without `form-action`: browsers apply that to every redirect after the form. */
export const POLICY = [
  "default-src 'none'",
  `style-src ${inlineHashes([HEAD], 'style')}`,
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

const page = (title: string, main: string) => `${HEAD}<title>${title} · ${SERVER_NAME}</title>
</head>
<body class="page">
<main class="card stack narrow">
${main}
</main>
</body>
</html>
`;

/** What a browser's form changes: it sends each line break as CR LF, and no NUL. */
const CHANGED_BY_FORMS = /[\0\r\n]/;
/** The hidden field with the `state` of such characters, as in a query. */
const EXACT_STATE = 'exact_state';

/** Returns the request's parameters as hidden fields, because the form's URL has none. */
function hiddenFields(request: AuthorizationRequest): string {
  const { state } = request;
  const exact = state !== null &&
    CHANGED_BY_FORMS.test(state) && { [EXACT_STATE]: `${new URLSearchParams({ state })}` };
  return Object.entries({ ...parametersOf(request), ...exact })
    .map(([name, value]) => `<input type="hidden" name="${name}" value="${escaped(value)}">`)
    .join('\n');
}

/** Returns what a person has sent, with the `state` that the page got. */
export function sentForm(form: URLSearchParams): URLSearchParams {
  const exact = new URLSearchParams(form.get(EXACT_STATE) ?? '').get('state');
  if (exact !== null) form.set('state', exact);
  return form;
}

/**
 * Returns the page that asks for a key. `connectUrl` is where people create one for this connection; null if there is no
 * such page. `problem` says why it is shown again.
 */
export function askPage(request: AuthorizationRequest, connectUrl: string | null, problem: string | null): string {
  const { place, who, says } = receiverOf(request);
  const make =
    connectUrl === null
      ? ''
      : `<p><a class="solid" href="${escaped(connectUrl)}">Make a key for this connection</a></p>\n`;
  // A key for another server is bound to it; one for this server may be good elsewhere, too.
  const where = request.server === THIS_SERVER ? 'wherever it is accepted' : 'there';
  const described = problem === null ? 'own' : 'problem own';
  return page(
    'Hand over an API key',
    `<h1><small>Your API key will be handed to</small> <span class="host">${escaped(place)}</span></h1>
${says === null ? '' : `<p>${says}</p>\n`}
<p>The connection is for <bdi>${escaped(request.resource ?? request.issuer)}</bdi>. With the key, ${who} can do everything that it may ${where}, until it ends.
Go on only if you have just asked for this connection yourself.</p>
${make}<form class="field${connectUrl === null ? '' : ' next'}" method="post" action="${escaped(request.issuer)}/authorize">
${hiddenFields(request)}
<label for="key">${connectUrl === null ? 'API key' : 'Or paste an API key'}</label>
<input id="key" name="key" type="password" autocomplete="off" autocapitalize="off" spellcheck="false" aria-describedby="${described}"${problem === null ? '' : ' aria-invalid="true"'} required autofocus>
${problem === null ? '' : `<p id="problem" class="bad" role="alert">${escaped(problem)}</p>\n`}<p id="own" class="hint">Best is a key of its own for this connection, with no more scopes than it needs: it can be ended alone.</p>
<div class="line">
<button${connectUrl === null ? ' class="solid"' : ''}>Hand over the key</button>
<button name="cancel" value="1" formnovalidate>Cancel</button>
</div>
</form>`,
  );
}

/** Describes in HTML who gets the key: for the heading, for a sentence, and what else is known of the client. */
function receiverOf({ redirectUri, client }: AuthorizationRequest) {
  const said = (name: string) => `<bdi>${escaped(name)}</bdi>`;
  const saysItIs = client.host && `It says that it is ${said(client.host)}, which nobody can prove.`;
  if (isLoopbackRedirect(redirectUri)) {
    const says = saysItIs ?? (client.name && `It calls itself "${said(client.name)}".`);
    return { place: 'a program on this computer', who: 'the program', says };
  }
  if (saysItIs !== null && !redirectUri.startsWith('https:'))
    return { place: 'an app on this computer', who: 'the app', says: saysItIs };
  const place = hostOf(redirectUri);
  const says = client.host !== null && client.isListed ? `Identified by ${said(client.host)}.` : saysItIs;
  return { place, who: said(place), says };
}

/** Returns the page that says why there is no redirect. */
export const errorPage = (why: string): string =>
  page(
    'No key is handed over',
    `<h1>No key is handed over</h1>\n<p>${escaped(why)}</p>\n<p>You can close this page.</p>`,
  );
