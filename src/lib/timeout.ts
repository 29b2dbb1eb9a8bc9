// Waiting: for some time, and for an answer that may not come in time.

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** What `answer` resolves to, or `late` when that takes longer than `ms`. */
export async function within<T, Late>(ms: number, answer: Promise<T>, late: Late): Promise<T | Late> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLate = new Promise<Late>((resolve) => {
    timer = setTimeout(resolve, ms, late);
  });
  try {
    return await Promise.race([answer, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}
