// Builds the service from a configuration: store, key domain, token verifier, tools, app. Does not listen.

import { type App, createApp } from './app.ts';
import { type Clock, countingSleep, type RandomBytes, type Sha256 } from './clock.ts';
import type { Config } from './config.ts';
import { reportCounts } from './counts.ts';
import { developmentSecret, prepareDataFolder } from './data-folder.ts';
import { keySetAt, keySetOf, keySetUrl } from './guards/issuer.ts';
import { createJwtVerifier } from './guards/jwt.ts';
import type { LoadKeySet } from './guards/key-set.ts';
import { createPrincipals } from './guards/principal.ts';
import { type SigningKeys, secretKey } from './guards/signing-keys.ts';
import type { VerifyUserJwt } from './guards/user-jwt.ts';
import { createKeyDomain, type KeyDomain } from './keys/index.ts';
import type { Log } from './log.ts';
import type { Resource, ResourceTemplate } from './mcp/resource.ts';
import { openStore, type Store } from './store/index.ts';
import { createToolDeps, type ToolDeps } from './tools/deps.ts';
import { createTools } from './tools/index.ts';
import type { Tool } from './tools/tool.ts';
import { widgetResources } from './widgets/index.ts';

export interface ServiceOptions {
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly sha256: Sha256;
  readonly log: Log;
  /** The URL clients see. Read at each use, because the system may choose the port. */
  readonly publicUrl: () => string;
  /** The tools to offer; those of tools/index.ts unless given. */
  readonly tools?: (deps: ToolDeps) => readonly Tool[];
  /** The resources to offer; the widgets unless given. */
  readonly resources?: readonly Resource[];
  readonly resourceTemplates?: readonly ResourceTemplate[];
}

export interface Service {
  readonly app: App;
  readonly keyDomain: KeyDomain;
  /** Writes what is pending and closes the store. */
  close(): Promise<void>;
}

/** Throws an Error whose message is the line to show: a folder, database, issuer or tool that can't be used. */
export async function createService(config: Config, options: ServiceOptions): Promise<Service> {
  prepareDataFolder(config, options.log);
  // For what may be believed and how long. Windows of rate limits aren't on it: setting the wall clock opens none.
  const ageClock = countingSleep(options.clock);
  const verifyUserJwt = await userJwtVerifier(config, { ...options, clock: ageClock });
  const store = await openStore(config.database, options.log);
  try {
    return serviceOn(store, verifyUserJwt, config, { ...options, ageClock });
  } catch (error) {
    await store.close();
    throw error;
  }
}

function serviceOn(
  store: Store,
  verifyUserJwt: VerifyUserJwt,
  config: Config,
  options: ServiceOptions & { readonly ageClock: Clock },
): Service {
  const { clock, ageClock, random, sha256, log, publicUrl, tools: offered = createTools } = options;
  const { resources = widgetResources, resourceTemplates = [] } = options;
  const { production, revocationLagMaxMs: lagMaxMs, rateLimit } = config;
  const keyDomain = createKeyDomain({ store, clock: ageClock, random, sha256, log, production, lagMaxMs });
  const { keys, verifier } = keyDomain;
  const tools = offered(createToolDeps({ verifyKey: verifier.verify, verifyUserJwt, keys, rateLimit, clock, log }));
  const app = createApp({
    config,
    publicUrl,
    keyDomain,
    storeMode: store.mode,
    tools,
    resources,
    resourceTemplates,
    principals: createPrincipals(verifyUserJwt, verifier.verify, sha256),
    clock,
    random,
    log,
  });
  // Must come last: it starts a timer, which a later failure would leave running.
  const stopReporting = reportCounts(log, () => ({
    ...verifier.counts,
    storeReads: store.counts.reads,
    storeWrites: store.counts.writes,
  }));
  return {
    app,
    keyDomain,
    async close() {
      try {
        await keyDomain.stop();
      } finally {
        stopReporting();
        await store.close();
      }
    },
  };
}

async function userJwtVerifier(
  config: Config,
  { clock, sha256, log, publicUrl }: Pick<ServiceOptions, 'clock' | 'sha256' | 'log' | 'publicUrl'>,
): Promise<VerifyUserJwt> {
  const { jwt, jwtIssuer: issuer, jwtAudience } = config;
  const keys = await signingKeys(config, { clock, log });
  // A secret signs for this server alone; an issuer signs for others too.
  const isSecret = jwt.kind === 'secret' || jwt.kind === 'dev-secret';
  const usual = () => (isSecret ? null : ownAudiences(publicUrl()));
  const audiences = jwtAudience === null ? usual : () => [jwtAudience];
  return createJwtVerifier({ keys, issuer, audiences, clock, sha256 });
}

async function signingKeys(config: Config, context: Pick<ServiceOptions, 'clock' | 'log'>): Promise<SigningKeys> {
  const { jwt } = config;
  const keySet = async (load: LoadKeySet) => (await import('./guards/key-set.ts')).createKeySet({ load, ...context });
  switch (jwt.kind) {
    case 'secret':
      return secretKey(jwt.secret);
    case 'dev-secret':
      return secretKey(developmentSecret(config.database));
    case 'jwks':
      return keySet(keySetAt(jwt.url));
    case 'discovery': {
      // In production a wrong issuer is found out now, not by the first user.
      const found = config.production ? await keySetUrl(jwt.issuer) : null;
      if (found?.ok === false) {
        throw new Error(
          `JWT_ISSUER: expected an issuer whose metadata names its key set, but ${found.error.reason}, got ${JSON.stringify(jwt.issuer)}`,
        );
      }
      return keySet(keySetOf(jwt.issuer));
    }
  }
}

/** The audiences that a token for this server may name (RFC 8707): the origin, or the resource a client was given. */
function ownAudiences(publicUrl: string): readonly string[] {
  const { origin } = new URL(publicUrl);
  return [origin, `${origin}/`, publicUrl, `${publicUrl}/mcp`, `${publicUrl}/sse`];
}
