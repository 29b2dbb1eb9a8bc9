// How programs get a key, with a person's consent (src/mcp/README.md, Signing in): OAuth clients by a code, devices by asking.
// A door: the server works without it. In the protocol's order: clients.ts, authorization-request.ts, authorize.ts, codes.ts,
// code-grant.ts; and device-request.ts, device-decision.ts.

import type { DoorRoutes } from '../../api/index.ts';
import { logRefusal, parameter } from '../../api/oauth.ts';
import type { GrantTypes } from '../../api/token.ts';
import type { ConnectConfig } from '../../config/client-ids.ts';
import type { Log, RequestIds } from '../../watch/log.ts';
import { type AuthorizationRefusal, decide, malformed } from './authorization-request.ts';
import { authorizeRoute } from './authorize.ts';
import { createClients, registerRoute } from './clients.ts';
import { createCodeGrant } from './code-grant.ts';
import { createCodes } from './codes.ts';
import { createDeviceGrant, DEVICE_GRANT, deviceDecisionRoutes } from './device-decision.ts';
import { deviceAuthorizationRoute } from './device-request.ts';
import { createClientDocuments } from './document-cache.ts';
import type { SignInOptions, SignInParts } from './options.ts';
import { createCodeStore, createFindCode } from './store.ts';

export function openSignIn(core: SignInOptions) {
  const { config, db, lookupBudgets, sha256, log } = core;
  const { connect, device, ownerDefaults } = config;
  const store = createCodeStore(db, ownerDefaults.keysMax);
  const parts: SignInParts = { ...core, store, findCode: createFindCode(store, sha256, lookupBudgets, log) };
  const connected = connect && openConnect(parts, connect);
  const routes: DoorRoutes = {
    ...connected?.routes,
    ...(device && { deviceAuthorization: deviceAuthorizationRoute(parts), ...deviceDecisionRoutes(parts) }),
  };
  const grantTypes: GrantTypes = new Map([
    ...(connected?.grantTypes ?? []),
    ...(device ? ([[DEVICE_GRANT, createDeviceGrant(parts)]] as const) : []),
  ]);
  const authorizationServer = (url: string): object => serverMetadata(config, url);
  return { routes, grantTypes, authorizationServer, handsOutKeys: connect !== null };
}

/** Opens the ways of OAuth clients: registration, the page on which a person decides, and redeeming a code. */
function openConnect(parts: SignInParts, { redirects, clients: rules }: ConnectConfig) {
  const { signing, audience, ageClock, log } = parts;
  const documents = rules && createClientDocuments(rules, ageClock, log);
  const clients = createClients(signing('client_id'), documents, redirects);
  const codes = createCodes(parts);
  const authorize = authorizeRoute({
    ...parts,
    codes,
    async decide(parameters, caller) {
      const find = () => {
        const clientId = parameter(parameters, 'client_id') ?? '';
        return clients.find(clientId, parameter(parameters, 'redirect_uri'), () => caller.clientAddress());
      };
      const servers = audience.serversFor(caller.publicUrl);
      const decision = malformed(parameters) ?? decide(parameters, await find(), servers);
      if (decision.kind !== 'ask') logRefusedClient(log, caller, decision.refusal);
      return decision;
    },
  });
  const register = redirects && registerRoute(clients, redirects, log);
  const grantTypes = [['authorization_code', createCodeGrant(clients, codes, parts)]] as const;
  return { routes: { register, authorize }, grantTypes };
}

function logRefusedClient(log: Log, { requestId }: RequestIds, refusal: AuthorizationRefusal): void {
  logRefusal(log, 'authorize', requestId, refusal);
  const { notListed: client } = refusal;
  if (client !== undefined) log.warnThrottled('client not admitted', client, { requestId, client });
}

/**
 * Returns what the server's metadata (RFC 8414 §2) says beside /token. There is no revocation endpoint: clients that
 * revoke before they sign in again would end the key everywhere.
 */
const serverMetadata = ({ connect, device }: SignInOptions['config'], url: string) => ({
  ...(device && { device_authorization_endpoint: `${url}/device_authorization` }),
  response_types_supported: connect === null ? [] : ['code'],
  ...(connect !== null && {
    authorization_endpoint: `${url}/authorize`,
    response_modes_supported: ['query'],
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
    ...(connect.redirects !== null && { registration_endpoint: `${url}/register` }),
    ...(connect.clients !== null && { client_id_metadata_document_supported: true }),
  }),
});
