// The Accept header (RFC 9110 §12.5.1): whether a client takes a media type at all. Preferences are not compared.

const REFUSED = /^q=0(\.0*)?$/;

/** True when `accept` takes `type` (lower case): the most specific range that covers it decides. Absent: anything. */
export function accepts(accept: string | null, type: string): boolean {
  if (accept === null) return true;
  const ranges = new Map(accept.toLowerCase().split(',').map(parseRange));
  const wholeKind = `${type.slice(0, type.indexOf('/'))}/*`;
  return ranges.get(type) ?? ranges.get(wholeKind) ?? ranges.get('*/*') ?? false;
}

function parseRange(range: string): [name: string, taken: boolean] {
  const [name = '', ...parameters] = range.split(';').map((part) => part.trim());
  return [name, !parameters.some((parameter) => REFUSED.test(parameter))];
}
