// Who a client is. Nothing is stored of clients: the id that /register gives one holds its redirect URIs under a MAC.

import { createSignedText, type SignedTextOptions } from '../ground/signed-text.ts';

export interface Client {
  readonly redirectUris: readonly string[];
}

export interface Clients {
  /** Returns the id of a client; equal ones have the same. */
  idOf(client: Client): Promise<string>;
  /** Returns null if this server did not register the client. */
  find(clientId: string): Promise<Client | null>;
}

export function createClients(signing: Omit<SignedTextOptions, 'use'>): Clients {
  const signedText = createSignedText({ ...signing, use: 'client_id' });
  return {
    idOf: ({ redirectUris }) => signedText.sign(JSON.stringify(redirectUris)),

    async find(clientId) {
      const text = await signedText.read(clientId);
      return text === null ? null : { redirectUris: JSON.parse(text) as readonly string[] }; // signed
    },
  };
}
