// What the server calls itself, everywhere.

export const SERVER_NAME = 'mcp-key-server';
export const SERVER_VERSION = '1.0.0';
