// Puts together how OAuth clients get a key: they register or have a document, a person decides, and they redeem a
// code.

import type { SignedTextOptions } from '../ground/signed-text.ts';
import { decide } from './authorization-request.ts';
import { type AuthorizeRouteOptions, authorizeRoute } from './authorize.ts';
import { type ClientDocumentsOptions, createClientDocuments } from './client-documents.ts';
import type { ClientRules } from './client-ids.ts';
import { createClients } from './clients.ts';
import { type CodesOptions, createCodes } from './codes.ts';
import { createGrants, type GrantsOptions } from './grant.ts';
import { parameter } from './parameters.ts';
import { NO_REDIRECTS, type Redirects } from './redirects.ts';
import { registerRoute } from './register.ts';
import { type CodeGrantOptions, createCodeGrant } from './token-code.ts';

/** Which clients may get keys. At least one of the two is set. */
export interface ConnectConfig {
  /** OAUTH_REDIRECTS, for clients that register; null: none may. */
  readonly redirects: Redirects | null;
  /** OAUTH_CLIENTS, for clients with documents; null: none are read. */
  readonly clients: ClientRules | null;
}

export type ConnectOptions = CodesOptions &
  Omit<GrantsOptions, 'codes'> &
  Omit<CodeGrantOptions, 'clients' | 'codes'> &
  Omit<AuthorizeRouteOptions, 'decide' | 'grants'> &
  Omit<SignedTextOptions, 'use'> &
  Omit<ClientDocumentsOptions, 'rules'>;

/**
 * Creates the routes and the grant type of OAuth clients: registration, the page on which a person decides, and
 * redeeming a code.
 */
export function connectRoutes(options: ConnectOptions, { redirects, clients: rules }: ConnectConfig) {
  const { audience } = options;
  const documents = rules && createClientDocuments({ ...options, rules });
  const clients = createClients({ ...options, documents, redirects: redirects ?? NO_REDIRECTS });
  const codes = createCodes(options);
  return {
    register: redirects && registerRoute(clients, redirects),
    authorize: authorizeRoute({
      ...options,
      grants: createGrants({ ...options, codes }),
      async decide(parameters, context) {
        const clientId = parameter(parameters, 'client_id') ?? '';
        const client = await clients.find(clientId, () => context.clientAddress());
        return decide(parameters, client, audience.serversFor(context.publicUrl));
      },
    }),
    grantTypes: [['authorization_code', createCodeGrant({ ...options, clients, codes })]] as const,
  };
}
