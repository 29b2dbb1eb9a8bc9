// Reads the parameters of a query or form as OAuth demands (RFC 6749 §3.1, §3.2).

/** Returns a parameter; null if it is missing or empty, which is the same. */
export const parameter = (parameters: URLSearchParams, name: string): string | null => parameters.get(name) || null;

export function hasTwice(parameters: URLSearchParams): boolean {
  const names = [...parameters.keys()];
  return new Set(names).size < names.length;
}
