// A decision over a text that comes again and again, made once for each of the texts seen lately.

/** Beyond it everything is forgotten: whoever sends ever new texts has each decided anew, and nothing else. */
const REMEMBERED_MAX = 1000;
/** A longer text is not worth keeping. */
const CHARS_MAX = 255;

export function remembering<Decision>(decide: (text: string) => Decision): (text: string) => Decision {
  const decided = new Map<string, Decision>();
  return (text) => {
    const known = decided.get(text);
    if (known !== undefined) return known;
    const decision = decide(text);
    if (decided.size >= REMEMBERED_MAX) decided.clear();
    if (text.length <= CHARS_MAX) decided.set(text, decision);
    return decision;
  };
}
