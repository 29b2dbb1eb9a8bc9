// How programs get a key, with a person's consent (src/mcp/README.md, Signing in): OAuth clients by a code, devices by asking.
// A door: the server works without it. In the protocol's order: clients.ts, authorization-request.ts, authorize.ts, codes.ts,
// token-code.ts; and device-request.ts, device-decision.ts.

import type { DoorRoutes } from '../../api/index.ts';
import { logRefusal, parameter } from '../../api/oauth.ts';
import type { GrantTypes } from '../../api/token.ts';
import type { Call } from '../../calls/call.ts';
import type { Guard } from '../../calls/guard.ts';
import type { UserAuth } from '../../calls/user-jwt.ts';
import type { ConnectConfig } from '../../config/client-ids.ts';
import type { Config } from '../../config/config.ts';
import { NO_REDIRECTS } from '../../config/redirects.ts';
import type { TokenBuckets } from '../../ground/limits/rates.ts';
import type { Clock, RandomBytes, Sha256 } from '../../ground/runtime.ts';
import type { Signing } from '../../ground/signed-text.ts';
import type { OriginOf } from '../../keys/actor.ts';
import type { Audience } from '../../keys/audience.ts';
import type { Minting, ReadKeyRequest } from '../../keys/minting.ts';
import type { Verifier } from '../../keys/verify.ts';
import type { Database } from '../../store/database.ts';
import type { Log, RequestIds } from '../../watch/log.ts';
import { type AuthorizationRefusal, decide } from './authorization-request.ts';
import { authorizeRoute } from './authorize.ts';
import { createClientDocuments } from './client-documents.ts';
import { createClients, registerRoute } from './clients.ts';
import { createCodes, createGrants } from './codes.ts';
import { createDeviceGrant, DEVICE_GRANT, deviceDecisionRoutes } from './device-decision.ts';
import { deviceAuthorizationRoute } from './device-request.ts';
import { type CodeStore, createCodeStore, createFindCode, type FindCode } from './store.ts';
import { createCodeGrant } from './token-code.ts';

export interface SignInOptions {
  /** `connect`: which OAuth clients get keys; `device`: whether programs without a browser may ask for one. */
  readonly config: Config;
  readonly db: Database;
  /** The budgets of unknown keys, which codes share. */
  readonly lookupBudgets: TokenBuckets;
  readonly keys: Minting;
  readonly verifier: Verifier;
  readonly guards: { readonly userJwt: Guard<Call, UserAuth> };
  readonly readKeyRequest: ReadKeyRequest;
  readonly audience: Audience;
  readonly originOf: OriginOf;
  /** Returns how to read the secret that signs registrations, and the id of its database. */
  readonly signing: (use: 'client_id') => Signing;
  readonly clock: Clock;
  /** A clock that also counts while the machine sleeps. */
  readonly ageClock: Clock;
  readonly random: RandomBytes;
  readonly sha256: Sha256;
  readonly log: Log;
}

export function openSignIn(core: SignInOptions) {
  const { config, db, lookupBudgets, sha256, log } = core;
  const { connect, device, ownerDefaults } = config;
  const store = createCodeStore(db, ownerDefaults.keysMax);
  const asked: Asked = { ...core, store, findCode: createFindCode(store, sha256, lookupBudgets, log) };
  const connected = connect && openConnect(asked, connect);
  const routes: DoorRoutes = {
    ...connected?.routes,
    ...(device && { ask: deviceAuthorizationRoute(asked), ...deviceDecisionRoutes(asked) }),
  };
  const grantTypes: GrantTypes = new Map([
    ...(connected?.grantTypes ?? []),
    ...(device ? ([[DEVICE_GRANT, createDeviceGrant(asked)]] as const) : []),
  ]);
  const authorizationServer = (url: string): object => serverMetadata(config, url);
  return { routes, grantTypes, authorizationServer, handsOutKeys: connect !== null };
}

/** What both ways need: the core, and where codes and requests are kept. */
interface Asked extends SignInOptions {
  readonly store: CodeStore;
  readonly findCode: FindCode;
}

/** Opens the ways of OAuth clients: registration, the page on which a person decides, and redeeming a code. */
function openConnect(core: Asked, { redirects, clients: rules }: ConnectConfig) {
  const { config, audience, verifier, guards, readKeyRequest, ageClock, log } = core;
  const documents = rules && createClientDocuments(rules, ageClock, log);
  const clients = createClients(core.signing('client_id'), documents, redirects ?? NO_REDIRECTS);
  const codes = createCodes(core);
  const authorize = authorizeRoute({
    hasKeysPage: config.keysPage !== null,
    verifyPastedKey: verifier.verifyPasted,
    guards,
    readKeyRequest,
    grants: createGrants(codes, core),
    log,
    async decide(parameters, caller) {
      const clientId = parameter(parameters, 'client_id') ?? '';
      const redirectUri = parameter(parameters, 'redirect_uri');
      const client = await clients.find(clientId, redirectUri, () => caller.clientAddress());
      const decision = decide(parameters, client, audience.serversFor(caller.publicUrl));
      if (decision.kind !== 'ask') logRefusedClient(log, caller, decision.refusal);
      return decision;
    },
  });
  const register = redirects && registerRoute(clients, redirects, log);
  const grantTypes = [['authorization_code', createCodeGrant(clients, codes, core)]] as const;
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
