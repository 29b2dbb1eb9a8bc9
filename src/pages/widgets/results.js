// What a tool returned, as MCP has it: its object, or why it failed.

/** The name of what a result has for the widget alone. */
export const FOR_WIDGET = 'mcp-key-server/widget';

/**
 * The object a tool returned, or null: structuredContent, else the JSON of its first text; with what is for the
 * widget alone, which no model is shown.
 */
export function outputOf({ structuredContent, content, isError, _meta: meta }) {
  if (isError === true) return null;
  const forWidget = meta?.[FOR_WIDGET];
  if (typeof structuredContent === 'object' && structuredContent !== null)
    return { ...structuredContent, ...forWidget };
  try {
    const parsed = JSON.parse(content[0].text);
    return typeof parsed === 'object' ? { ...parsed, ...forWidget } : null;
  } catch {
    return null;
  }
}

/** The code of a failure and what belongs to it, if the server has it for the widget. */
export const problemOf = ({ isError, _meta: meta }) => (isError === true && meta?.[FOR_WIDGET]) || {};

/** Why a tool failed, in its own words if it has any; what would help stands in a text of its own. */
export function failureOf({ content, isError }) {
  const texts = (Array.isArray(content) ? content : [])
    .filter((block) => block?.type === 'text' && typeof block.text === 'string' && block.text !== '')
    .map(({ text }) => text);
  return isError === true && texts.length > 0 ? texts.join('. ') : 'The answer could not be read.';
}

export const failed = (...texts) => ({ isError: true, content: texts.map((text) => ({ type: 'text', text })) });
