// Puts together how OAuth clients get a key: they register or have a document, a person decides, and they redeem a
// code.

import { logRefusal, parameter } from '../../api/oauth.ts';
import type { ConnectConfig } from '../../config/client-ids.ts';
import { NO_REDIRECTS } from '../../config/redirects.ts';
import type { SignedTextOptions } from '../../ground/signed-text.ts';
import type { Log } from '../../watch/log.ts';
import type { RequestContext } from '../../web/context.ts';
import { type AuthorizationRefusal, decide } from './authorization-request.ts';
import { type AuthorizeRouteOptions, authorizeRoute } from './authorize.ts';
import { type ClientDocumentsOptions, createClientDocuments } from './client-documents.ts';
import { createClients } from './clients.ts';
import { type CodesOptions, createCodes } from './codes.ts';
import { createGrants, type GrantsOptions } from './grant.ts';
import { registerRoute } from './register.ts';
import { type CodeGrantOptions, createCodeGrant } from './token-code.ts';

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
  const { audience, log } = options;
  const documents = rules && createClientDocuments({ ...options, rules });
  const clients = createClients({ ...options, documents, redirects: redirects ?? NO_REDIRECTS });
  const codes = createCodes(options);
  return {
    register: redirects && registerRoute(clients, redirects, log),
    authorize: authorizeRoute({
      ...options,
      grants: createGrants({ ...options, codes }),
      async decide(parameters, context) {
        const clientId = parameter(parameters, 'client_id') ?? '';
        const redirectUri = parameter(parameters, 'redirect_uri');
        const client = await clients.find(clientId, redirectUri, () => context.clientAddress());
        const decision = decide(parameters, client, audience.serversFor(context.publicUrl));
        if (decision.kind !== 'ask') logRefusedClient(log, context, decision.refusal);
        return decision;
      },
    }),
    grantTypes: [['authorization_code', createCodeGrant({ ...options, clients, codes })]] as const,
  };
}

function logRefusedClient(log: Log, context: RequestContext, refusal: AuthorizationRefusal): void {
  logRefusal(log, 'authorize', context, refusal);
  const { notListed: client } = refusal;
  if (client !== undefined) log.warnThrottled('client not admitted', client, { requestId: context.requestId, client });
}
