// What get_data returns, for the SDK's servers. They declare no schemas, so they are spared checking input and output.

import type { CheckedKey } from './key-check.ts';

const SAMPLE_ROWS = [
  { id: 'sample-1', title: 'First sample row', amount: 10 },
  { id: 'sample-2', title: 'Second sample row', amount: 20 },
];

export const GET_DATA = { title: 'Get data', description: "Returns sample data of the API key's owner." };

export function sampleData({ owner, ...key }: CheckedKey) {
  const data = { owner, key, data: SAMPLE_ROWS };
  return { content: [{ type: 'text' as const, text: JSON.stringify(data) }], structuredContent: data };
}
