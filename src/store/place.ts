// Declares where the keys are: in a file, or in a remote database with or without a replica.

export interface RemoteConfig {
  readonly mode: 'remote';
  readonly url: string;
  readonly authToken: string | null;
  readonly replicaFile: string | null;
}

export interface EmbeddedConfig {
  readonly mode: 'embedded';
  readonly path: string;
}

export type DatabaseConfig = EmbeddedConfig | RemoteConfig;
