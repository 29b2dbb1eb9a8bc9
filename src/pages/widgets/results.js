// What became of a call: { output, failure, problem }. `output` is the object that a tool returned, or null. `failure` is
// a sentence: why there is no output, or what to say of one that can't be read. `problem` has the code of a refusal.

const UNREADABLE = 'The answer could not be read.';
/** The name of what a result has for the widget alone, which no model is shown. */
const FOR_WIDGET = 'mcp-key-server/widget';

export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

export const succeeded = (output) => ({ output, failure: UNREADABLE, problem: {} });
export const failed = (failure, problem = {}) => ({ output: null, failure, problem });

/** A tool's result, as MCP has it: structuredContent, else the JSON of its first text. What would help is a text of its own. */
export function readResult({ structuredContent, content, isError, _meta: meta }) {
  const forWidget = isObject(meta?.[FOR_WIDGET]) ? meta[FOR_WIDGET] : {};
  const texts = (Array.isArray(content) ? content : [])
    .filter((block) => block?.type === 'text' && typeof block.text === 'string' && block.text !== '')
    .map(({ text }) => text);
  if (isError === true) return failed(texts.join('. ') || UNREADABLE, forWidget);
  const output = isObject(structuredContent) ? structuredContent : parsed(texts[0]);
  return isObject(output) ? succeeded({ ...output, ...forWidget }) : failed(UNREADABLE);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
