// Parses OAUTH_CLIENTS, the clients whose documents may be read (Client ID Metadata Documents). A client's id is the
// URL of its document. Ids are compared as written: another spelling could be another document.

import { isAddress, isLoopback } from '../ground/ip.ts';
import { isPlain, parseList, type Redirects } from './redirects.ts';

/** What `known` stands for, as vendors published it (2026-09). mcp/README.md lists it. */
export const KNOWN_CLIENTS = [
  'https://claude.ai/oauth/mcp-oauth-client-metadata',
  'https://claude.ai/oauth/claude-code-client-metadata',
  'https://chatgpt.com/oauth/client.json',
  'https://chatgpt.com/oauth/codex/client.json',
  'https://vscode.dev/oauth/client-metadata.json',
  'https://opencode.ai/oauth/opencode/client.json',
] as const;

export interface ClientRules {
  readonly exact: readonly string[];
  /** Each ends with a slash. One or two more segments follow. */
  readonly prefixes: readonly string[];
}

/** Which clients may get keys. At least one of the two is set. */
export interface ConnectConfig {
  /** OAUTH_REDIRECTS, for clients that nobody has listed; null: they get no keys. */
  readonly redirects: Redirects | null;
  /** OAUTH_CLIENTS, for clients with documents; null: none are read. */
  readonly clients: ClientRules | null;
}

/** One or two path segments, none of them `.` or `..`. */
const SEGMENTS = '(?!\\.{1,2}(?:/|$))[\\w.-]{1,200}(?:/(?!\\.{1,2}$)[\\w.-]{1,200})?';

/** The longest id that is taken for a URL: pages, the log and events show it. */
const ID_CHARS_MAX = 2000;

/** Returns whether a client's id is a URL. The ids of registered clients have no colon. */
export const isUrl = (clientId: string): boolean =>
  clientId.startsWith('https://') && clientId.length <= ID_CHARS_MAX && URL.canParse(clientId);

/** Returns the pattern of the ids that the rules admit. The page says by it whether anybody vouches for a client. */
export const admittedIds = ({ exact, prefixes }: ClientRules): string =>
  `^(?:${[...exact.map(literally), ...prefixes.map((prefix) => literally(prefix) + SEGMENTS)].join('|')})$`;

const literally = (text: string): string => text.replace(/[^\w:/-]/g, '\\$&');

export function clientRulesOf(value: string): ClientRules | null {
  const list = parseList(value, 'known', isRule);
  if (list === null) return null;
  const { exact, prefixes, hasWord } = list;
  return { exact: [...new Set([...(hasWord ? KNOWN_CLIENTS : []), ...exact])], prefixes };
}

function isRule(rule: string): boolean {
  const bare = rule.endsWith('/*') ? rule.slice(0, -1) : rule;
  const url = URL.parse(bare);
  if (url === null || url.protocol !== 'https:' || url.href !== bare) return false;
  if (!isPlain(bare) || bare.includes('*') || bare.includes('?')) return false;
  const { hostname, port } = url;
  if (isLoopback(hostname)) return port !== '';
  return port === '' && hostname.includes('.') && !hostname.endsWith('.') && !isAddress(hostname);
}

/** Returns whether a rule names this machine, which only tests need, outside production. */
export const namesThisMachine = ({ exact, prefixes }: ClientRules): boolean =>
  [...exact, ...prefixes].some((url) => isLoopback(new URL(url).hostname));
