// The list of keys in its frame: the response to the latest request, unless a key was changed while it was on its way.
// A failure takes no list away, because a new key may stand in it.

import { failureOf, outputOf } from '../widgets/dom.js';
import { forPage, openFrame } from './frame.js';

/** `view`: the tool that lists, and its arguments. `failed` is told why a list that is shown could not be refreshed. */
export function openList(holder, view, callTool, failed) {
  let latest = 0;
  let isAsking = false;
  let hasKeys = false;
  const frame = openFrame('listed', holder, async (tool, args) => {
    const result = await callTool(tool, args);
    if (isAsking && tool !== view.tool) void refresh();
    return result;
  });

  function show(result) {
    const isList = outputOf(result) !== null;
    if (hasKeys && !isList) return failed(failureOf(result));
    hasKeys = isList;
    frame.show(forPage(result, { onPage: view }));
  }

  async function refresh() {
    latest += 1;
    const asked = latest;
    isAsking = true;
    const result = await callTool(view.tool, view.args);
    if (asked !== latest) return;
    isAsking = false;
    show(result);
  }

  /** What was asked for is not shown any more. */
  function abandon() {
    latest += 1;
    isAsking = false;
  }

  return {
    show,
    refresh,
    abandon,
    close() {
      abandon();
      frame.close();
    },
  };
}
