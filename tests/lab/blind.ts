// `bun tests/lab/blind.ts --seed 7 [--answers]`: draws 20 lines of the source that have a word of the domain. A reader who
// has README.md and src/README.md alone says for each in which room or door it stands, and in which file; --answers shows.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Glob } from 'bun';
import { seeded } from '../support/model-user.ts';

const SRC = join(import.meta.dir, '../../src');
const WORDS =
  /address|audience|backup|block|cache|challenge|change|child|client|code|count|credential|cursor|device|event|expir|grant|guard|header|introspect|issuer|jwks|key|lease|limit|log|metric|migrat|origin|owner|page|poll|prompt|proof|quota|redirect|replica|request|resource|restore|revo|rotat|route|rule|scope|secret|session|sign|span|store|stream|token|tool|usage|verif|widget/i;
const LINES = 20;

const { values } = parseArgs({ options: { seed: { type: 'string', default: '1' }, answers: { type: 'boolean' } } });

/** A line of code that says something: no import, comment or bracket alone. */
const isTelling = (line: string): boolean =>
  line.length >= 30 && !/^(?:import|export \*|\/\/|\/?\*|\} from)/.test(line) && WORDS.test(line);

const lines = [...new Glob('**/*.{ts,js}').scanSync(SRC)]
  .filter((file) => file.includes('/') && !file.endsWith('.d.ts'))
  .sort()
  .flatMap((file) =>
    readFileSync(join(SRC, file), 'utf8')
      .split('\n')
      .map((line) => ({ file, line: line.trim() })),
  )
  .filter(({ line }) => isTelling(line));
const random = seeded(Number(values.seed));
for (let nth = 1; nth <= LINES; nth++) {
  const [drawn] = lines.splice(Math.floor(random() * lines.length), 1);
  console.log(`${nth}. ${values.answers ? `${drawn?.file}: ` : ''}${drawn?.line}`);
}
