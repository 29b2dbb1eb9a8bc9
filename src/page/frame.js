// A widget in a sandboxed frame of the page. It sees results, and never the token.

import { byId, FOR_WIDGET } from '../widgets/dom.js';
import { hostWidget } from '../widgets/host.js';

/** A result with what the page adds for its widgets. */
export const forPage = (result, added) => ({
  ...result,
  _meta: { [FOR_WIDGET]: { ...result._meta?.[FOR_WIDGET], ...added } },
});

/** Puts the widget of the template `name` into `holder`: `show(result)` may come before it is ready. */
export function openFrame(name, holder, call) {
  const frame = byId(name).content.firstElementChild.cloneNode(true);
  let isReady = false;
  let shown = null;
  const tell = () => isReady && shown !== null && talk.notify('tool-result', shown);
  const talk = hostWidget(frame, {
    hello: () => ({
      hostInfo: { name: document.title, version: '1.0.0' },
      hostCapabilities: { serverTools: {} },
      hostContext: { locale: navigator.language, timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone },
    }),
    ready() {
      isReady = true;
      tell();
    },
    call: ({ name: tool, arguments: args }) => call(tool, args),
    resized({ height }) {
      frame.style.height = `${height}px`;
    },
  });
  holder.replaceChildren(frame);
  return {
    show(result) {
      shown = result;
      tell();
    },
    close() {
      shown = null;
      talk.close();
      frame.remove();
    },
  };
}
