// Where the keys are: a file, or a remote database with or without a replica in a file.

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
