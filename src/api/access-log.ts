// The access log: with ACCESS_LOG=1, writes a line for each request when its response leaves.

import { callerOf, callIn } from '../calls/call.ts';
import type { Clock } from '../ground/runtime.ts';
import { clientText } from '../mcp/client.ts';
import type { Log } from '../watch/log.ts';
import { excerptOf, redact, redactHashes } from '../watch/redact.ts';
import { codeOf } from '../web/problem-response.ts';
import type { Observer } from './observer.ts';

interface AccessLogOptions {
  readonly config: { readonly basePath: string; readonly trustProxy: number };
  readonly clock: Clock;
  readonly log: Log;
}

export function createAccessLog({ config, clock, log }: AccessLogOptions): Observer {
  const { basePath, trustProxy } = config;
  const verifyRoute = `${basePath}/verify`;
  return {
    request(context) {
      const startedMs = clock.monotonicMs();
      const address = context.clientAddress(); // read now: a client that has left has none
      return (response) => {
        const { status } = response;
        const { requestId, request, headers, route } = context;
        const call = callIn(context);
        const durationMs = Math.round((clock.monotonicMs() - startedMs) * 1000) / 1000;
        const tool = call?.tool || context.tool;
        const {
          keyId,
          keyName: name,
          subject,
          parentId,
          actor,
        } = call?.auth ?? call?.response.refused ?? call?.response.sender ?? {};
        const keyName = name && redactHashes(String(name)); // a person may name a key by its hash, a guard by anything
        const caller =
          keyId === undefined
            ? { userId: subject, ...(actor !== subject && { actor }) }
            : {
                keyId,
                keyName,
                owner: subject,
                ...(parentId && { parentId }),
                ...ruleFields(call),
              };
        const cost = call?.cost === 1 ? undefined : call?.cost;
        const { traceId } = call?.caller ?? callerOf(context);
        const userAgent = headers.get('user-agent');
        const path = route === verifyRoute && trustProxy > 0 ? forwardedPath(headers) : undefined;
        log.info('request', {
          requestId,
          traceId,
          method: request.method,
          route,
          path,
          tool,
          cost,
          status,
          code: codeOf(response) ?? call?.response.code,
          durationMs,
          address,
          ...caller,
          userAgent: userAgent ? excerptOf(userAgent) : undefined,
          client: clientText(context.clientInfo),
        });
      };
    },
  };
}

/** Returns whose token was presented in place of a key, and the rule that let it in. */
function ruleFields(call: ReturnType<typeof callIn>) {
  const rule = call?.proof?.key?.rule ?? (call?.response.refused ?? call?.response.sender)?.rule;
  return rule && { rule: rule.id, workload: rule.workload };
}

/**
 * Returns the path that a trusted proxy asks about. The query may hold secrets, so it is left out. Secrets in the
 * path are redacted before it is cut, because half a key may not look like one.
 */
function forwardedPath(headers: Headers): string | undefined {
  const path = headers.get('x-forwarded-uri')?.split(/[?#]/, 1)[0];
  return path?.startsWith('/') ? redact(path).slice(0, PATH_CHARS_MAX) : undefined;
}

/** Long enough to tell one call from another. */
const PATH_CHARS_MAX = 500;
