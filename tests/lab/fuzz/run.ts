// bun run fuzz [--setting plain] [--seed 1] [--inputs 100000] [--minutes 15]

import { parseArgs } from 'node:util';
import { type Figures, fuzz } from './fuzz.ts';
import { SETTINGS, type SettingName } from './settings.ts';

const { values } = parseArgs({
  options: {
    setting: { type: 'string', default: 'plain' },
    seed: { type: 'string', default: '1' },
    inputs: { type: 'string', default: '100000' },
    minutes: { type: 'string', default: '15' },
  },
});

const setting = Object.keys(SETTINGS).find((name): name is SettingName => name === values.setting);
if (setting === undefined) throw new Error(`--setting: expected one of ${Object.keys(SETTINGS).join(', ')}`);

const report = ({ inputs, seconds, statuses, closed, logLines, rssMb, healthMsMax }: Figures): string => {
  const byStatus = [...statuses].sort(([a], [b]) => a - b).map(([status, count]) => `${status}: ${count}`);
  const memory = Array.from({ length: 11 }, (_, part) => rssMb[Math.floor(((rssMb.length - 1) * part) / 10)]);
  return [
    `${inputs} inputs in ${Math.round(seconds)} s, ${Math.round(inputs / seconds)}/s; ${closed} closed, ${logLines} log lines`,
    `responses   ${byStatus.join('  ')}`,
    `memory    ${memory.join(' ')} MB`,
    `health    ${Math.round(healthMsMax)} ms at most`,
  ].join('\n');
};

const figures = await fuzz({
  setting,
  seed: Number(values.seed),
  inputs: Number(values.inputs),
  seconds: Number(values.minutes) * 60,
  onProgress: (soFar) => console.error(report(soFar)),
});
console.log(report(figures));
