// A widget: a component with what its tool returned, or a sentence in its place.

import { connect } from './bridge.js';
import { html, mount, redraw } from './draw.js';
import { complaint } from './parts.js';

/**
 * `loading`, `nothing`: what is said until a result comes, and of one that has nothing to show. `underWay(args)`: what is
 * said of a call that has begun; undefined: nothing new. `show(result, callTool, component)` gives the component for
 * what the tool returned, from the one that is shown, if any; null: there is nothing to show. `callTool` is null where
 * the host lets widgets call none.
 */
export function widget(name, { loading, nothing, underWay, show }) {
  const said = (words) => html`<p class="sentence" role="status"><span>${words}</span></p>`;
  let sentence = said(loading);
  let component = null;

  function say(words) {
    component?.close();
    component = null;
    sentence = words;
    redraw();
  }

  mount(() => html`<main>${component === null ? html`<div class="empty">${sentence}</div>` : component.view()}</main>`);
  connect(name, {
    input(args) {
      const words = component === null ? underWay(args) : undefined;
      if (words !== undefined) say(said(words));
    },
    result(result, callTool) {
      const shown = show(result, callTool, component);
      if (shown === null) return say(complaint(`${nothing} ${result.failure}`));
      if (shown !== component) component?.close();
      component = shown;
      redraw();
    },
    replaceByMessage: (words) => say(complaint(words)),
    close: () => say(said('This widget is closed.')),
  });
}
