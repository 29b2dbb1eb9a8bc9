// Puts together how OAuth clients and programs without a browser get a key: the routes in the protocol's order, and
// what they share.

import { serverMetadataRoutes } from '../../api/metadata.ts';
import { type GrantTypes, tokenRoute } from '../../api/token.ts';
import type { ConnectConfig } from '../../config/client-ids.ts';
import type { Route } from '../../web/router.ts';
import type { ConnectOptions } from './connect.ts';
import { type DeviceAuthorizationOptions, deviceAuthorizationRoute } from './device-authorization.ts';
import { type DeviceDecisionOptions, deviceDecisionRoutes } from './device-decision.ts';
import { createDeviceGrant, DEVICE_GRANT } from './token-device.ts';

export type SignInOptions = ConnectOptions &
  DeviceAuthorizationOptions &
  DeviceDecisionOptions & {
    /** Further grant types of /token. */
    readonly grantTypes: GrantTypes;
    readonly config: {
      /** Which OAuth clients get keys; null: none do. */
      readonly connect: ConnectConfig | null;
      /** Whether programs without a browser may ask for a key. */
      readonly device: boolean;
    };
    readonly publicPath: string;
    /** The scopes that tools and prompts demand of keys. */
    readonly scopes: readonly string[];
  };

type Handlers = Pick<Route, 'get' | 'post' | 'takes' | 'refuse'>;

/** The handlers of routes in api/table.ts; null if a route is off. */
export interface SignInRoutes {
  readonly server: readonly (Handlers & { readonly path: string })[] | null;
  readonly register: Handlers | null;
  readonly authorize: Handlers | null;
  readonly token: Handlers;
  readonly ask: Handlers | null;
  readonly request: Handlers | null;
  readonly decision: Handlers | null;
}

/** Creates the routes. Loads connect.ts only if OAuth clients get keys. */
export async function createSignIn(options: SignInOptions): Promise<SignInRoutes> {
  const { config } = options;
  const connect = config.connect && (await import('./connect.ts')).connectRoutes(options, config.connect);
  const device = config.device ? deviceRoutes(options) : null;
  const grantTypes: GrantTypes = new Map([
    ...(connect?.grantTypes ?? []),
    ...(device?.grantTypes ?? []),
    ...options.grantTypes,
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
    token: tokenRoute(grantTypes, options.log),
    ask: device?.ask ?? null,
    request: device?.request ?? null,
    decision: device?.decision ?? null,
  };
}

const deviceRoutes = (options: SignInOptions) => ({
  ask: deviceAuthorizationRoute(options),
  ...deviceDecisionRoutes(options),
  grantTypes: [[DEVICE_GRANT, createDeviceGrant(options)]] as const,
});
