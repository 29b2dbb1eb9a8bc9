// What is to happen after the last test. (The test runner ends without an `exit` event.) A worker, which runs one of many
// files, knows no last one: there it happens after each file.

export const isWorker = process.env.BUN_TEST_WORKER_ID !== undefined;

const steps: (() => unknown)[] = [];

export function atEnd(step: () => unknown): void {
  steps.push(step);
}

export async function end(): Promise<void> {
  for (const step of steps) await step();
}
