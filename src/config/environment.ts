// NODE_ENV. Only `production` turns on the production rules, so a likely slip of it must not start.

import { isWithinEdits } from '../ground/edit-distance.ts';
import type { NoteFault } from '../ground/expected.ts';

const PRODUCTION = 'production';
/** Beside what it begins with: `pro`, `prod`, `product`. Two letters may be anything: `pr` is a pull request. */
const SHORT_FOR_PRODUCTION = new Set(['prd', 'live']);
const BEGINNING_CHARS_MIN = 3;
const SLIPS_MAX = 2;
const NAME = /^[\w.-]{1,64}$/;
/** Other environments may hold real keys, and must say how users sign in. */
const WITH_MADE_UP_SECRET = new Set(['development', 'test']);

export interface Environment {
  readonly environment: string;
  readonly production: boolean;
}

export function environment(name: string, fault: NoteFault): Environment {
  if (name !== PRODUCTION && meansProduction(name)) {
    fault('NODE_ENV', `"${PRODUCTION}", or a name unlike it (did you mean "${PRODUCTION}"?)`, name);
    return DEVELOPMENT;
  }
  if (!NAME.test(name)) {
    fault('NODE_ENV', 'a name of up to 64 letters, digits and . _ -', name);
    return DEVELOPMENT;
  }
  return { environment: name, production: name === PRODUCTION };
}

/** For a name that stops the start, so that it causes no other fault. */
const DEVELOPMENT: Environment = { environment: 'development', production: false };

export const mayMakeSecret = ({ environment }: Environment): boolean => WITH_MADE_UP_SECRET.has(environment);

function meansProduction(name: string): boolean {
  const letters = name.toLowerCase().replace(/[^a-z]/g, '');
  const isBeginning = letters.length >= BEGINNING_CHARS_MIN && PRODUCTION.startsWith(letters);
  return isBeginning || SHORT_FOR_PRODUCTION.has(letters) || isWithinEdits(letters, PRODUCTION, SLIPS_MAX);
}
