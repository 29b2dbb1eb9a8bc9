// What an OAuth-capable MCP client keeps, for both SDKs' clients, and the browser its user signs in with.

import type { OAuthClientProvider, OAuthDiscoveryState } from '@modelcontextprotocol/sdk/client/auth.js';
import type { OAuthClientInformationMixed, OAuthTokens } from '@modelcontextprotocol/sdk/shared/auth.js';
import { CALLBACK } from './hand-over.ts';

export interface SignIn {
  readonly provider: OAuthClientProvider;
  /** Where the client sent its user; null: nowhere yet. */
  readonly authorizationUrl: () => URL | null;
  /** Goes there, and returns what the authorization server sends the user back with. */
  readonly signIn: () => Promise<URLSearchParams>;
}

/** `answer`: what the user does at the page of the authorization server; there is none where it lets everybody in.
 * `registered`: the client as it was registered beforehand. `callback`: where a browser is sent back. */
export function createSignIn(
  answer?: (page: URL) => Promise<Response>,
  registered?: OAuthClientInformationMixed,
  callback = CALLBACK,
): SignIn {
  let client = registered;
  let tokens: OAuthTokens | undefined;
  let verifier = '';
  let discovered: OAuthDiscoveryState | undefined;
  let sentTo: URL | null = null;
  return {
    provider: {
      redirectUrl: callback,
      clientMetadata: { client_name: 'test', redirect_uris: [callback], token_endpoint_auth_method: 'none' },
      clientInformation: () => client,
      saveClientInformation(information) {
        client = information;
      },
      tokens: () => tokens,
      saveTokens(issued) {
        tokens = issued;
      },
      redirectToAuthorization(url) {
        sentTo = url;
      },
      saveCodeVerifier(made) {
        verifier = made;
      },
      codeVerifier: () => verifier,
      saveDiscoveryState(state) {
        discovered = state;
      },
      discoveryState: () => discovered,
    },
    authorizationUrl: () => sentTo,
    async signIn() {
      if (sentTo === null) throw new Error('the client did not ask to sign in');
      const response = await (answer ?? ((page) => fetch(page, { redirect: 'manual' })))(sentTo);
      const back = response.headers.get('location');
      if (back === null)
        throw new Error(`the authorization server responded ${response.status}: ${await response.text()}`);
      return new URL(back).searchParams;
    },
  };
}
