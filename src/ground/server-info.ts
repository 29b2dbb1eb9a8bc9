// The server's name and version, as sent everywhere. The version is that of package.json.

import manifest from '../../package.json' with { type: 'json' };

export const SERVER_NAME = 'mcp-key-server';
export const SERVER_VERSION: string = manifest.version;
