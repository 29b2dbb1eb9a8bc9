// prompts/get and completion/complete. A server without prompts has neither.

import type { Prompt } from '../authoring/prompt.ts';
import { isObject } from '../lib/text.ts';
import { callPlan, invalidParams, type Method, type Plan } from './plan.ts';
import type { RequestStates } from './request-state.ts';

const UNKNOWN_PROMPT: Plan = invalidParams('Unknown prompt');

export const getPrompt =
  (prompts: ReadonlyMap<string, Prompt>, states: RequestStates): Method =>
  (params, context) => {
    const { name, arguments: given = {} } = params;
    if (typeof name !== 'string') return invalidParams('name must be a string');
    if (!isObject(given)) return invalidParams('arguments must be an object');
    const prompt = prompts.get(name);
    return prompt === undefined ? UNKNOWN_PROMPT : callPlan(prompt, given, params, context, states);
  };

export const completeArgument =
  (prompts: ReadonlyMap<string, Prompt>): Method =>
  (params, context) => {
    const { ref, argument, context: known = {} } = params;
    if (!isObject(ref)) return invalidParams('ref must be an object');
    switch (ref.type) {
      case 'ref/prompt': {
        const prompt = typeof ref.name === 'string' ? prompts.get(ref.name) : undefined;
        if (prompt === undefined) return UNKNOWN_PROMPT;
        return callPlan(prompt.complete, { argument, context: known }, params, context);
      }
      case 'ref/resource':
        return invalidParams('Unknown resource template'); // there are none
      default:
        return invalidParams('ref.type must be ref/prompt or ref/resource');
    }
  };
