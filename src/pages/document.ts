// Creates the HTML documents of pages and widgets, with the style sheet and all scripts inlined: they load nothing.

import { inlineAssets, type Parts } from './inline.ts';
import created from './widgets/api-key-created.js' with { type: 'text' };
import list from './widgets/api-keys-list.js' with { type: 'text' };
import draw from './widgets/draw.js' with { type: 'text' };
import keyRow from './widgets/key-row.js' with { type: 'text' };
import keysList from './widgets/keys-list.js' with { type: 'text' };
import listView from './widgets/list-view.js' with { type: 'text' };
import newKey from './widgets/new-key.js' with { type: 'text' };
import ownerLine from './widgets/owner-line.js' with { type: 'text' };
import parts from './widgets/parts.js' with { type: 'text' };
import previewHost from './widgets/preview-host.js' with { type: 'text' };
import question from './widgets/question.js' with { type: 'text' };
import samples from './widgets/samples.js' with { type: 'text' };
import style from './widgets/style.css' with { type: 'text' };
import widget from './widgets/widget.js' with { type: 'text' };

const PARTS = {
  'api-key-created.js': created,
  'api-keys-list.js': list,
  'draw.js': draw,
  'key-row.js': keyRow,
  'keys-list.js': keysList,
  'list-view.js': listView,
  'new-key.js': newKey,
  'owner-line.js': ownerLine,
  'parts.js': parts,
  'preview-host.js': previewHost,
  'question.js': question,
  'samples.js': samples,
  'style.css': style,
  'widget.js': widget,
};

/** The beginning of all documents. */
export const HEAD = inlineAssets(
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="./style.css">
`,
  PARTS,
);

interface DocumentOptions {
  readonly title: string;
  /** The script that the document runs. */
  readonly script: string;
  /** The scripts of a door, beside those of the widgets. */
  readonly parts?: Parts;
  /** Whether it is a page of the server, not a widget in a chat app. */
  readonly isPage: boolean;
  /** Where the script draws. */
  readonly body?: string;
}

/** Creates a document without a setup. */
export const documentOf = ({
  title,
  script,
  isPage,
  parts = {},
  body = '<div id="root" class="stack"></div>',
}: DocumentOptions): string =>
  `${HEAD}<title>${title}</title>
${isPage ? '<link rel="icon" href="data:,">\n' : ''}<script type="application/json" id="setup">"{setup}"</script>
</head>
<body spellcheck="false"${isPage ? ' class="page"' : ''}>
<noscript>This page needs JavaScript.</noscript>
${body}
${inlineAssets(`<script type="module">\nimport './${script}';\n</script>`, { ...PARTS, ...parts })}
</body>
</html>
`;

/** Returns the document with `setup`, which is public. */
export const withSetup = (document: string, setup: unknown): string =>
  document.replace('"{setup}"', () => JSON.stringify(setup).replaceAll('<', '\\u003c'));
