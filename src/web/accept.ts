// The Accept header (RFC 9110 §12.5.1): whether a client takes a media type at all. Preferences are not compared.

const REFUSED = /^q=0(\.0*)?$/;

/** The most specific range that covers `type` (lower case) decides. An absent header takes anything. */
export function accepts(accept: string | null, type: string): boolean {
  if (accept === null) return true;
  const ranges = rangesIn(accept);
  const wholeKind = `${type.slice(0, type.indexOf('/'))}/*`;
  return ranges.get(type) ?? ranges.get(wholeKind) ?? ranges.get('*/*') ?? false;
}

/** True when `accept` names `type` (lower case) itself, as browsers do with what they show to people. */
export const names = (accept: string | null, type: string): boolean =>
  accept !== null && rangesIn(accept).get(type) === true;

const rangesIn = (accept: string) => new Map(accept.toLowerCase().split(',').map(parseRange));

function parseRange(range: string): [name: string, taken: boolean] {
  const [name = '', ...parameters] = range.split(';').map((part) => part.trim());
  return [name, !parameters.some((parameter) => REFUSED.test(parameter))];
}
