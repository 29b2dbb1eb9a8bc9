// Waits: for some time, or for a promise that may not settle in time.

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** What `promise` resolves to, or `fallback` when that takes longer than `ms`. */
export async function withTimeout<T, Fallback>(
  promise: Promise<T>,
  ms: number,
  fallback: Fallback,
): Promise<T | Fallback> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<Fallback>((resolve) => {
    timer = setTimeout(resolve, ms, fallback);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
