// Creates the widgets as MCP resources (MCP Apps), in the order in which clients see them.

import { type Resource, WIDGET_TYPE } from '../../calls/content.ts';
import { atFirstUse } from '../../ground/first-use.ts';
import { chain } from '../../ground/result.ts';
import { SERVER_VERSION } from '../../ground/server-info.ts';

/** Says how soon an ended key is refused. `lagMaxMs` is the bound of other processes. */
export const refusedWithin = (lagMaxMs: number): string =>
  `refused at once, elsewhere within ${lagMaxMs === 1000 ? 'a second' : `${lagMaxMs / 1000} seconds`}`;

export function createWidgets(lagMaxMs: number): readonly Resource[] {
  const documents = atFirstUse('pages/widgets', import.meta.url)(() => import('../document.ts'));
  const widget = (name: 'api-key-created' | 'api-keys-list', title: string, description: string): Resource => ({
    uri: `ui://widget/${name}.html`,
    name,
    title,
    description,
    mimeType: WIDGET_TYPE,
    // Loaded and created on first read: most processes never show a widget.
    read: () =>
      chain(documents(), ({ documentOf, withSetup }) => {
        const setup = { url: null, refused: refusedWithin(lagMaxMs), version: SERVER_VERSION };
        return { text: withSetup(documentOf({ title, script: `${name}.js`, isPage: false }), setup) };
      }),
    meta: { ui: { prefersBorder: true, permissions: { clipboardWrite: {} } } },
  });
  return [
    widget(
      'api-key-created',
      'API key created',
      'Shows a new API key once, masked until asked for, with what it may do and when it expires.',
    ),
    widget('api-keys-list', 'API keys', 'Shows API keys with their state, to sort, filter, rotate, revoke and delete.'),
  ];
}
