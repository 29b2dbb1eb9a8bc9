// The list of keys in its frame: the response to the latest request, unless a key was changed while it was on its way.

import { forPage, openFrame } from './frame.js';

/** `view`: the tool that lists, and its arguments. */
export function openList(holder, view, callTool) {
  let latest = 0;
  let isAsking = false;
  const frame = openFrame('listed', holder, async (tool, args) => {
    const result = await callTool(tool, args);
    if (isAsking && tool !== view.tool) void refresh();
    return result;
  });
  const show = (result) => frame.show(forPage(result, { onPage: view }));

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
