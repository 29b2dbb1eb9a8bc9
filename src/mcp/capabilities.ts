// Which capabilities a client lacks. Compared in depth: a client that opens URLs may show no forms, and extensions
// differ.

import { isObject, type JsonObject } from '../ground/text.ts';

/** What of `required` is not in `declared`; undefined if nothing. */
export function missingCapabilities(required: JsonObject, declared: JsonObject): JsonObject | undefined {
  return missingIn(withForm(required), withForm(declared), 'capabilities');
}

function missingIn(required: JsonObject, declared: JsonObject, of: string): JsonObject | undefined {
  const missing = Object.entries(required).flatMap(([name, wanted]) => {
    const lacked = lackedOf(wanted, Object.hasOwn(declared, name) ? declared[name] : undefined, name, of);
    return lacked === undefined ? [] : [[name, lacked]];
  });
  return missing.length === 0 ? undefined : Object.fromEntries(missing);
}

function lackedOf(wanted: unknown, given: unknown, name: string, of: string): unknown {
  if (!isObject(wanted)) return wanted === given ? undefined : wanted;
  if (!isObject(given)) return wanted;
  // An extension counts by its name; its settings are not compared.
  return of === 'extensions' ? undefined : missingIn(wanted, given, name);
}

/** `elicitation: {}` is from before there were modes, and means forms (client/elicitation, "Capabilities"). */
function withForm(capabilities: JsonObject): JsonObject {
  const { elicitation } = capabilities;
  if (!isObject(elicitation) || 'form' in elicitation || 'url' in elicitation) return capabilities;
  return { ...capabilities, elicitation: { ...elicitation, form: {} } };
}
