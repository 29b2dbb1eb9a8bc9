// Resources that MCP clients can list and read. Public: the same for everyone, decided when the server starts.

import { isObject, type JsonObject } from '../ground/text.ts';

/** `blob` is base64. */
export type ResourceContent = { readonly text: string } | { readonly blob: string };

export interface Resource {
  readonly uri: string;
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly mimeType: string;
  /** `_meta` of the listed item and of the content item. */
  readonly meta?: JsonObject;
  readonly read: () => ResourceContent;
}

/** Checks the resources that a tool file exports. Throws an Error whose message is for the operator. */
export function resourcesOf(file: string, exported: unknown): readonly Resource[] {
  if (exported === undefined) return [];
  if (Array.isArray(exported) && exported.every(isResource)) return exported;
  const fields = 'uri, name, title, description, mimeType and a function read';
  throw new Error(`${file}: expected the export resources to be an array of objects with ${fields}`);
}

function isResource(value: unknown): value is Resource {
  if (!isObject(value)) return false;
  const texts = [value.uri, value.name, value.title, value.description, value.mimeType];
  return texts.every((text) => typeof text === 'string') && typeof value.read === 'function';
}
