// Counts and times the server's work for METRICS_TOKEN's metrics, by wrapping its parts. No label holds text that
// callers can make up.

import type { Transport } from '../../api/observer.ts';
import type { Guard } from '../../calls/guard.ts';
import type { Operation, ToolResult } from '../../calls/operation.ts';
import type { Run } from '../../calls/run.ts';
import { type Awaitable, chain, isPromise } from '../../ground/result.ts';
import type { Clock } from '../../ground/runtime.ts';
import type { Verified, Verifier } from '../../keys/verify.ts';
import type { Mcp, Reply } from '../../mcp/server.ts';
import { createGauges, type GaugeOptions } from './gauges.ts';
import { createSeries, type Sample, type Series } from './series.ts';

/** The label of any tool or method that the server doesn't have. */
const OTHER = 'other';

/** The MCP method that calls each kind of operation. */
const METHODS: Readonly<Record<Operation['kind'], string>> = {
  tool: 'tools/call',
  prompt: 'prompts/get',
  completion: 'completion/complete',
};

export function createMetrics(clock: Clock) {
  const series = createSeries();
  const operations = (mcp_method_name: string, gen_ai_tool_name: string, error_type: string, transport: Transport) =>
    series.of('mcp_server_operation_duration_seconds', { mcp_method_name, gen_ai_tool_name, error_type, transport });
  const verified = (result: string) => series.of('mcp_keys_verifications_total', { result });
  const [memory, fromStore] = [verified('memory'), verified('store')];
  const [refused, unavailable] = [verified('refused'), verified('unavailable')];
  let gauges = async (): Promise<readonly Sample[]> => [];

  const secondsSince = (startedMs: number) => (clock.monotonicMs() - startedMs) / 1000;

  return {
    run(transport: Transport, run: Run): Run {
      const successes = new Map<Operation, Series>(); // spares nearly all calls the lookup by labels
      return async (operation, input, call, canceller) => {
        const startedMs = clock.monotonicMs();
        const result = await run(operation, input, call, canceller);
        const errorType = errorTypeOf(result);
        let durations = errorType === '' ? successes.get(operation) : undefined;
        if (durations === undefined) {
          const { kind, name } = operation;
          durations = operations(METHODS[kind], kind === 'tool' ? name : '', errorType, transport);
          if (errorType === '') successes.set(operation, durations);
        }
        durations.observe(secondsSince(startedMs));
        return result;
      };
    },

    mcp(transport: Transport, mcp: Mcp): Mcp {
      return async (request, peer) => {
        const startedMs = clock.monotonicMs();
        const reply = await mcp(request, peer);
        if (reply.call !== undefined) return reply; // counted where it ran
        const { method, tool } = labelsOf(request.method, reply);
        operations(method, tool, String(reply.errorCode ?? ''), transport).observe(secondsSince(startedMs));
        return reply;
      };
    },

    /** Wraps a guard to count its refusals by code. */
    guard<In, Add extends object>(guard: Guard<In, Add>): Guard<In, Add> {
      const counted: typeof guard = (context) => chain(guard(context), count);
      function count(result: Awaited<ReturnType<typeof guard>>) {
        if (!result.ok) series.of('mcp_keys_refused_total', { code: result.error.code }).value += 1;
        return result;
      }
      return Object.assign(counted, guard);
    },

    verify(verifier: Verifier): Verifier['verify'] {
      function count(verified: Awaited<ReturnType<Verifier['verify']>>, wasKnown: boolean) {
        if (verified.ok) (wasKnown ? memory : fromStore).value += 1;
        else (verified.error.code === 'auth_unavailable' ? unavailable : refused).value += 1;
        return verified;
      }
      function countOutage(error: unknown): never {
        unavailable.value += 1;
        throw error;
      }
      return (token, caller) => {
        const { reads } = verifier.known;
        const verified = verifier.verify(token, caller);
        // A token that isn't remembered is verified later, but its key may be known.
        const isKnown = (found: Verified) => found.ok && found.rule !== null && verifier.known.reads === reads;
        if (isPromise(verified)) return verified.then((found) => count(found, isKnown(found)), countOutage);
        return count(verified, true);
      };
    },

    token(result: 'memory' | 'verified' | 'refused' | 'unavailable'): void {
      series.of('mcp_keys_tokens_total', { result }).value += 1;
    },

    store<S extends object>(store: S): S {
      const timed = Object.entries(store).map(([name, member]) => {
        if (typeof member !== 'function' || name === 'close') return [name, member];
        const durations = series.of('mcp_keys_store_duration_seconds', { operation: snakeCase(name) });
        return [name, timedBy(member as (...args: unknown[]) => Awaitable<unknown>, durations, clock)];
      });
      // Each method has the type it had.
      return Object.fromEntries(timed) as S;
    },

    /** Adds the gauges, which are read at each scrape. */
    addGauges(options: GaugeOptions): void {
      gauges = createGauges(clock, options);
    },
    text: async () => series.text(await gauges()),
  };
}

function timedBy<T>(ask: (...args: unknown[]) => Awaitable<T>, durations: Series, clock: Clock) {
  return async (...args: unknown[]) => {
    const startedMs = clock.monotonicMs();
    try {
      return await ask(...args);
    } finally {
      durations.observe((clock.monotonicMs() - startedMs) / 1000);
    }
  };
}

/**
 * Returns OpenTelemetry's `error.type`: empty for a success, `tool_error` for a failure that a tool reports as content.
 */
function errorTypeOf(result: ToolResult): string {
  if (!result.ok) {
    const { error } = result;
    return error.code === 'tool_timeout' && error.byClient ? 'cancelled' : error.code;
  }
  return 'contentJson' in result.value && result.value.isError ? 'tool_error' : '';
}

function labelsOf(method: string, { isUnknown, operation }: Reply): { readonly method: string; readonly tool: string } {
  if (isUnknown) return { method: OTHER, tool: '' };
  return { method, tool: method === 'tools/call' ? (operation?.name ?? OTHER) : '' };
}

const snakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
