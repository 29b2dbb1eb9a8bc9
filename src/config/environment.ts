// NODE_ENV. Only `production` itself turns on the production rules, so what is surely a slip of it must not start.

import { isWithinEdits } from '../lib/edits.ts';
import type { EnvReader } from './env.ts';

const PRODUCTION = 'production';
const SHORT_FOR_PRODUCTION = new Set(['prod', 'prd', 'live']);
const SLIPS_MAX = 2;
/** Others may hold real keys, and must say how users sign in. */
const WITH_MADE_UP_SECRET = new Set(['development', 'test']);

export interface Environment {
  readonly environment: string;
  readonly production: boolean;
}

export function environment({ parsed, fault }: EnvReader): Environment {
  const name = parsed('NODE_ENV', 'a name like production, in letters, digits and . _ -', environmentName);
  if (name !== null && name !== PRODUCTION && meansProduction(name)) {
    fault('NODE_ENV', `"${PRODUCTION}", or a name unlike it (did you mean "${PRODUCTION}"?)`, name);
  }
  return { environment: name ?? 'development', production: name === PRODUCTION };
}

export const mayMakeSecret = ({ environment }: Environment): boolean => WITH_MADE_UP_SECRET.has(environment);

// Space around it is let through to here, for a better hint.
const environmentName = (value: string) => (/^\s*[\w.-]{1,64}\s*$/.test(value) ? value : null);

function meansProduction(name: string): boolean {
  const letters = name.toLowerCase().replace(/[^a-z]/g, '');
  return SHORT_FOR_PRODUCTION.has(letters) || isWithinEdits(letters, PRODUCTION, SLIPS_MAX);
}
