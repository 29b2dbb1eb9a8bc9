// A widget: a component with what its tool returned, or a sentence in its place.

import { connect } from './bridge.js';
import { draw } from './draw.js';
import { html } from './html.js';
import { complaint, formatsOf } from './parts.js';

/**
 * `loading`, `nothing`: what is said until a result comes, and of one that has nothing to show. `underWay(args)`: what is
 * said of a call that has begun; undefined: nothing new. `show(output, { bridge, formats, redraw }, component)` gives the
 * component for the output, from the one that is shown, if any; null: the output has none.
 */
export function widget(name, { loading, nothing, underWay, show }) {
  const root = document.getElementById('root');
  const said = (words) => html`<p class="sentence" role="status"><span>${words}</span></p>`;
  let sentence = said(loading);
  let component = null;
  const redraw = () =>
    draw(
      root,
      html`<main>${component === null ? html`<div class="empty">${sentence}</div>` : component.view()}</main>`,
    );

  function say(words) {
    component?.close();
    component = null;
    sentence = words;
    redraw();
  }

  redraw();
  connect(name, {
    input(args) {
      const words = component === null ? underWay(args) : undefined;
      if (words !== undefined) say(said(words));
    },
    result({ output, failure }, bridge) {
      const shown = output && show(output, { bridge, formats: formatsOf(bridge), redraw }, component);
      if (shown === null) return say(complaint(`${nothing} ${failure}`));
      if (shown !== component) component?.close();
      component = shown;
      redraw();
    },
    replaceByMessage: (words) => say(complaint(words)),
    close: () => say(said('This widget is closed.')),
  });
}
