// How a client gets a key, or a program without a browser: the routes in the protocol's order, and what they share.

import type { SignedTextOptions } from '../ground/signed-text.ts';
import type { Minting } from '../keys/minting.ts';
import type { Verifier } from '../keys/verify.ts';
import type { Route } from '../web/router.ts';
import { decide } from './authorization-request.ts';
import { type AuthorizeRouteOptions, authorizeRoute } from './authorize.ts';
import { type ClientDocumentsOptions, createClientDocuments } from './client-documents.ts';
import type { ClientRules } from './client-ids.ts';
import { createClients } from './clients.ts';
import { type CodesOptions, createCodes } from './codes.ts';
import { type DeviceAuthorizationOptions, deviceAuthorizationRoute } from './device-authorization.ts';
import { type DeviceDecisionOptions, deviceDecisionRoutes } from './device-decision.ts';
import { createGrants } from './grant.ts';
import type { MakingOptions } from './making.ts';
import { serverMetadataRoutes } from './metadata.ts';
import { parameter } from './parameters.ts';
import type { Redirects } from './redirects.ts';
import { NO_REDIRECTS } from './redirects.ts';
import { registerRoute } from './register.ts';
import { type GrantTypes, tokenRoute } from './token.ts';
import { createCodeGrant } from './token-code.ts';
import { createDeviceGrant, DEVICE_GRANT } from './token-device.ts';
import { createExchangeGrant, EXCHANGE_GRANT, type ExchangeGrantOptions } from './token-exchange.ts';

/** Which clients may be handed keys. One of the two is set. */
export interface ConnectConfig {
  /** OAUTH_REDIRECTS: of clients that register; null: none does. */
  readonly redirects: Redirects | null;
  /** OAUTH_CLIENTS: whose documents are read; null: nobody's. */
  readonly clients: ClientRules | null;
}

export interface SignInOptions
  extends CodesOptions,
    MakingOptions,
    DeviceAuthorizationOptions,
    DeviceDecisionOptions,
    ExchangeGrantOptions,
    Omit<AuthorizeRouteOptions, 'decide' | 'grants' | 'config'>,
    Omit<SignedTextOptions, 'use'>,
    Omit<ClientDocumentsOptions, 'rules'> {
  readonly config: AuthorizeRouteOptions['config'] & {
    /** The configuration for OAuth clients. Null: they get no keys. */
    readonly connect: ConnectConfig | null;
    /** Whether programs without a browser may ask for a key. */
    readonly device: boolean;
  };
  readonly keys: Pick<Minting, 'order' | 'mint'>;
  readonly inspect: Verifier['inspect'];
  readonly publicPath: string;
  /** The scopes that tools and prompts ask keys for. */
  readonly scopes: readonly string[];
  readonly store: CodesOptions['store'];
}

type Handlers = Pick<Route, 'get' | 'post' | 'takes' | 'refuse'>;

/** The handlers of the routes of api/table.ts; null: the route is switched off. */
export interface SignInRoutes {
  readonly server: readonly (Handlers & { readonly path: string })[] | null;
  readonly register: Handlers | null;
  readonly authorize: Handlers | null;
  readonly token: Handlers;
  readonly ask: Handlers | null;
  readonly request: Handlers | null;
  readonly decision: Handlers | null;
}

export function createSignIn(options: SignInOptions): SignInRoutes {
  const { config } = options;
  const connect = config.connect && connectRoutes(options, config.connect);
  const device = config.device ? deviceRoutes(options) : null;
  const grantTypes: GrantTypes = new Map([
    ...(connect?.grantTypes ?? []),
    ...(device?.grantTypes ?? []),
    [EXCHANGE_GRANT, createExchangeGrant(options)],
  ]);
  const metadata = {
    ...options,
    authorizes: connect !== null,
    registers: connect?.register != null,
    readsDocuments: config.connect?.clients != null,
    isAsked: device !== null,
    grantTypes: [...grantTypes.keys()],
  };
  return {
    server: connect === null && device === null ? null : serverMetadataRoutes(metadata),
    register: connect?.register ?? null,
    authorize: connect?.authorize ?? null,
    token: tokenRoute(grantTypes),
    ask: device?.ask ?? null,
    request: device?.request ?? null,
    decision: device?.decision ?? null,
  };
}

function connectRoutes(options: SignInOptions, { redirects, clients: rules }: ConnectConfig) {
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
        return decide(parameters, client, audience.seenFrom(context.publicUrl));
      },
    }),
    grantTypes: [['authorization_code', createCodeGrant({ ...options, clients, codes })]] as const,
  };
}

const deviceRoutes = (options: SignInOptions) => ({
  ask: deviceAuthorizationRoute(options),
  ...deviceDecisionRoutes(options),
  grantTypes: [[DEVICE_GRANT, createDeviceGrant(options)]] as const,
});
