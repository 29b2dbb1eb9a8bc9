// How OAuth reads the parameters of a query or a form (RFC 6749 §3.1, §3.2).

/** Returns a parameter; null: none, or one without a value, which counts as left out. */
export const parameter = (parameters: URLSearchParams, name: string): string | null => parameters.get(name) || null;

export function hasTwice(parameters: URLSearchParams): boolean {
  const names = [...parameters.keys()];
  return new Set(names).size < names.length;
}
