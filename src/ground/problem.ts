// Defines the union of all expected failures, and in one table what each is on the wire. web/problem-response.ts and
// mcp/results.ts write them to clients.

import { rfc3339 } from './runtime.ts';

/** `path` is dotted (`scopes.2`), empty for the input itself. Keys in both are redacted. */
export interface InputIssue {
  readonly path: string;
  readonly message: string;
}

/** Why a presented key was refused. Only for the log; callers get one sentence for all. */
export type KeyRefusal =
  | 'malformed'
  | 'unknown'
  | 'revoked'
  | 'expired'
  | 'blocked'
  | 'rotated'
  | 'parent ended'
  | 'other_client_id'
  | 'other resource'
  | 'client has left'
  | TokenRefusal;

/** Why a token of an issuer that a rule names isn't let in. */
export type TokenRefusal =
  | 'malformed'
  | 'header'
  | 'lifetime'
  | 'expired'
  | 'not yet'
  | 'claims'
  | 'unknown kid'
  | 'signature'
  | 'no rule'
  | 'several rules';

/**
 * An expected failure. Callers see `code` and may rely on it; the other fields are evidence, and `reason` is only for
 * the log. `sent`: the kind of credential sent instead, judged by its form or by a rule. `help`: what agents read after the
 * sentence. `byClient`: the client cancelled the call.
 */
export type Problem = Evident | Bare<Exclude<ServerCode, Evident['code']>>;

type Bare<Code> = Code extends ServerCode ? { readonly code: Code } : never;

type Evident =
  | { readonly code: 'invalid_json'; readonly notObject?: true; readonly isNotUtf8?: true }
  /** `detail` replaces the default sentence about input that does not fit a tool's schema. */
  | { readonly code: 'invalid_input'; readonly issues: readonly InputIssue[]; readonly detail?: string }
  | { readonly code: 'invalid_response'; readonly issues: readonly InputIssue[] }
  | {
      readonly code: 'missing_token';
      readonly sent?: 'api_key';
      readonly lacksScheme?: true;
      readonly help?: string;
    }
  | {
      readonly code: 'invalid_token';
      readonly reason: string;
      /** The token is good but for its expiry. */
      readonly expired?: true;
      /** The owner that such a token names. */
      readonly userId?: string;
      readonly sent?: 'api_key';
      readonly help?: string;
    }
  | { readonly code: 'missing_api_key'; readonly lacksScheme?: true }
  | {
      readonly code: 'invalid_api_key';
      readonly reason: KeyRefusal;
      readonly keyId?: string;
      readonly keyName?: string;
      readonly userId?: string;
      /** The parent's id, if the key is a child. */
      readonly parentId?: string;
      readonly fingerprint?: string;
      readonly sent?: 'user_token';
      /** The issuer of the token that was presented, if a rule names it. */
      readonly issuer?: string;
      /** The token's `sub`, if its signature is good. */
      readonly subject?: string;
      /** The rule that let it in, the ids of several that would, or how many there are for its issuer. */
      readonly rule?: string;
      readonly rules?: readonly string[] | number;
    }
  | { readonly code: 'insufficient_scope'; readonly required: readonly string[] }
  | { readonly code: 'scope_not_granted'; readonly grantable: readonly string[] }
  | { readonly code: 'key_not_shown'; readonly lacksPage?: true }
  | { readonly code: 'not_found'; readonly healthAt?: string }
  | { readonly code: 'tool_not_found'; readonly lacksWidget?: true }
  | { readonly code: 'method_not_allowed'; readonly allow: string }
  | { readonly code: 'payload_too_large'; readonly kibMax?: number }
  | { readonly code: 'unsupported_media_type'; readonly takes?: 'form' | 'json_or_form'; readonly isEncoded?: true }
  | { readonly code: 'rotation_under_way'; readonly untilMs: number }
  | ({ readonly code: 'rate_limited' } & Exhausted)
  | ({ readonly code: 'quota_exceeded' } & Exhausted)
  | { readonly code: 'tool_timeout'; readonly byClient?: true }
  | { readonly code: 'store_unavailable'; readonly reason: string }
  | { readonly code: 'auth_unavailable'; readonly reason: string }
  | { readonly code: 'client_unavailable'; readonly reason: string }
  | ToolFailure;

/**
 * A limit with too little left for a call. `retryAfterS` is null if the call costs more than the limit, so that waiting
 * changes nothing. `of`: only the owner's limits refuse. `waitsFor`: `retryAfterS` waits only for the owner's limits.
 */
interface Exhausted {
  readonly retryAfterS: number | null;
  readonly of?: 'owner';
  readonly waitsFor?: 'owner';
}

/** A failure in a tool's own words, made and validated by calls/failure.ts. Callers see `ownCode` as its code. */
export interface ToolFailure {
  readonly code: 'tool_failure';
  readonly status: number;
  readonly ownCode: string;
  readonly detail: string;
  readonly retryAfterS?: number;
}

export const OVERLOADED: Problem = { code: 'overloaded' };

export type ProblemCode = Problem['code'];

export type ServerCode = keyof typeof PROBLEMS;

export type InvalidInput = Extract<Problem, { code: 'invalid_input' }>;

/** Returns the problem of one field; path '': of the whole input. `detail` replaces the default sentence. */
export const invalidInput = (path: string, message: string, detail?: string): InvalidInput => ({
  code: 'invalid_input',
  issues: [{ path, message }],
  ...(detail !== undefined && { detail }),
});

/** What a caller reads: the HTTP status, and one sentence, the same on every transport. */
interface ProblemText {
  readonly status: number;
  readonly detail: string;
}

/** Seconds until an unreachable store or key set may be tried again. */
export const RETRY_UNAVAILABLE_S = 1;

/** A problem on the wire: `status` and `detail` on all transports, and its names in protocols that have one. */
interface ProblemRow extends ProblemText {
  /** The JSON-RPC error (mcp/message.ts). Without one a tool call's reply is a result with `isError`, which an agent reads. */
  readonly rpc?: 'parse' | 'invalidParams' | 'internal';
  /** The OAuth error (RFC 6749 §4.1.2.1 and §5.2, RFC 6750 §3.1). Without one our code is used. */
  readonly oauth?: string;
}

const tableOf = <Code extends string>(rows: Readonly<Record<Code, ProblemRow>>) => rows;

const PROBLEMS = tableOf({
  invalid_json: { status: 400, detail: 'The body is not JSON', rpc: 'parse', oauth: 'invalid_request' },
  invalid_input: { status: 400, detail: 'The input does not fit the schema of the tool', oauth: 'invalid_request' },
  invalid_state: {
    status: 400,
    detail: 'The requestState is not of this call, or older than 10 minutes; call again without',
    rpc: 'invalidParams',
  },
  invalid_response: { status: 400, detail: 'A response does not fit its request', rpc: 'invalidParams' },
  missing_token: { status: 401, detail: 'No user token provided' },
  invalid_token: { status: 401, detail: 'Invalid or expired user token' },
  missing_api_key: { status: 401, detail: 'No API key provided', oauth: 'invalid_client' },
  invalid_api_key: { status: 401, detail: 'Invalid or expired API key', oauth: 'invalid_client' },
  insufficient_scope: { status: 403, detail: 'Insufficient permissions' },
  key_not_shown: {
    status: 403,
    detail: 'A new key is not shown to this client; use the page /keys, or a client with widgets',
  },
  scope_not_granted: { status: 403, detail: 'You may not give a key these scopes' },
  admin_required: { status: 403, detail: 'Only an admin may do this' },
  user_blocked: { status: 403, detail: 'This user is blocked' },
  origin_denied: { status: 403, detail: 'This origin may not call the server' },
  host_denied: { status: 403, detail: 'The server does not answer to this host name' },
  https_required: { status: 403, detail: 'Credentials are accepted over HTTPS only' },
  not_found: { status: 404, detail: 'No such route' },
  tool_not_found: { status: 404, detail: 'There is no tool of this name; /openapi.json lists all tools' },
  key_not_found: { status: 404, detail: 'There is no key with this id that you may change' },
  request_not_found: { status: 404, detail: 'No program waits with this code; it may have ended' },
  session_not_found: { status: 404, detail: 'No such session here; behind a balancer /sse needs sticky routing' },
  method_not_allowed: { status: 405, detail: 'This path does not support this method', oauth: 'invalid_request' },
  payload_too_large: { status: 413, detail: 'The body may have at most 1 MiB', oauth: 'invalid_request' },
  unsupported_media_type: { status: 415, detail: 'Content-Type must be application/json', oauth: 'invalid_request' },
  key_limit_reached: { status: 409, detail: 'There are as many API keys as this user may hold; delete one first' },
  key_not_active: { status: 409, detail: 'The key is revoked or has expired; create a new one' },
  own_owner: {
    status: 409,
    detail: 'You are this owner yourself, and would lock yourself out; another admin can block it',
  },
  key_is_child: { status: 409, detail: 'This key was made by another key, and cannot be rotated; make a new one' },
  rotation_under_way: { status: 409, detail: 'The previous secret of this key is still accepted' },
  rate_limited: { status: 429, detail: 'Rate limit exceeded; try again later' },
  quota_exceeded: { status: 429, detail: 'The quota of this API key is used up; try again when its period is over' },
  tool_timeout: { status: 504, detail: 'The call took longer than it may; what it began may go on' },
  internal: { status: 500, detail: 'Something went wrong on the server', rpc: 'internal', oauth: 'server_error' },
  store_unavailable: {
    status: 503,
    detail: 'The key store is out of reach; try again',
    oauth: 'temporarily_unavailable',
  },
  client_unavailable: {
    status: 503,
    detail: 'The document by which the program identifies itself is out of reach; try again',
  },
  auth_unavailable: {
    status: 503,
    detail: 'The key set of the token issuer is out of reach; try again',
    oauth: 'temporarily_unavailable',
  },
  overloaded: { status: 503, detail: 'The server is at its limit; try again', oauth: 'temporarily_unavailable' },
  sse_unavailable: { status: 503, detail: 'Several processes share this port, and /sse needs a single one; use /mcp' },
});

export const problemText = (code: ServerCode): ProblemText => PROBLEMS[code];

/** Returns its names in other protocols; a tool's own failure has none. */
export const protocolNames = ({ code }: Problem): Pick<ProblemRow, 'rpc' | 'oauth'> =>
  code === 'tool_failure' ? {} : PROBLEMS[code];

/** Returns whether a code is the server's, or `tool_failure`; false for codes that an untyped tool made up. */
export const isProblemCode = (code: string): boolean => code === 'tool_failure' || Object.hasOwn(PROBLEMS, code);

const NOT_ENCODED = 'The body must not be compressed: no Content-Encoding but identity is taken';

const NOT_TAKEN = {
  form: 'Content-Type must be application/x-www-form-urlencoded',
  json_or_form: 'Content-Type must be application/json or application/x-www-form-urlencoded',
} as const;

const WRONG_KIND = {
  api_key: 'This tool needs a user token; an API key was sent',
  user_token: 'This tool needs an API key; a user token was sent',
} as const;

export function publicPart(problem: Problem): ProblemText & { readonly code: string } {
  if (problem.code === 'tool_failure') {
    const { status, ownCode: code, detail } = problem;
    return { status, code, detail };
  }
  const { code } = problem;
  const { status, detail } = PROBLEMS[code];
  return { status, code, detail: exactDetail(problem) ?? detail };
}

/** Returns a more exact sentence from the fields beside the code; undefined: the code's own will do. */
function exactDetail(problem: Problem): string | undefined {
  if ('sent' in problem && problem.sent !== undefined) return WRONG_KIND[problem.sent];
  if ('lacksScheme' in problem && problem.lacksScheme)
    return `${PROBLEMS[problem.code].detail}: expected "Bearer " before it in Authorization`;
  switch (problem.code) {
    case 'invalid_token':
      return problem.expired && 'The user token has expired';
    case 'invalid_input':
      return problem.detail;
    case 'invalid_json':
      return problem.isNotUtf8 ? 'The body is not UTF-8' : problem.notObject && 'The body must be one JSON object';
    case 'unsupported_media_type':
      return problem.isEncoded ? NOT_ENCODED : problem.takes && NOT_TAKEN[problem.takes];
    case 'payload_too_large':
      return problem.kibMax === undefined ? undefined : `The body may have at most ${problem.kibMax} KiB`;
    case 'method_not_allowed':
      return `This path takes ${problem.allow.replace(/, (?=\w+$)/, ' and ')} alone`;
    case 'tool_not_found':
      return problem.lacksWidget && 'This tool has no widget';
    case 'key_not_shown':
      return problem.lacksPage && 'A new key is not shown to this client; use a client with widgets';
    case 'not_found':
      return problem.healthAt && `No such route; health is at ${problem.healthAt}`;
    case 'rate_limited':
    case 'quota_exceeded':
      return exhaustedDetail(problem);
    case 'rotation_under_way':
      return `${PROBLEMS[problem.code].detail} until ${rfc3339(problem.untilMs)}; with overlapHours 0 it ends now`;
    default:
      return undefined;
  }
}

function exhaustedDetail({ code, retryAfterS, of, waitsFor }: Extract<Problem, Exhausted>): string | undefined {
  if (retryAfterS === null) {
    const limit = of === 'owner' ? 'a limit of all your keys together' : 'a limit';
    return `This call costs more than ${limit} allows at all, so it is never admitted`;
  }
  if (waitsFor !== 'owner') return undefined;
  return code === 'quota_exceeded'
    ? 'The quota of all your keys together is used up; try again when its period is over'
    : 'The rate limit of all your keys together is exceeded; try again later';
}

/** Returns the seconds for `Retry-After` (RFC 9110 §10.2.3); null if retrying changes nothing. */
export function retryAfterSeconds(problem: Problem): number | null {
  switch (problem.code) {
    case 'rate_limited':
    case 'quota_exceeded':
      return problem.retryAfterS;
    case 'tool_failure':
      return problem.retryAfterS ?? null;
    case 'store_unavailable':
    case 'auth_unavailable':
    case 'client_unavailable':
    case 'overloaded':
      return RETRY_UNAVAILABLE_S;
    default:
      return null;
  }
}
