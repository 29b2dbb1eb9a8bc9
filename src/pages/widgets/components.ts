// The component layer and the style sheets of everything that people see, as texts: file name → text.

import draw from './draw.js' with { type: 'text' };
import html from './html.js' with { type: 'text' };
import keyRow from './key-row.js' with { type: 'text' };
import keysStyle from './keys.css' with { type: 'text' };
import keysList from './keys-list.js' with { type: 'text' };
import listedKey from './listed-key.js' with { type: 'text' };
import newKey from './new-key.js' with { type: 'text' };
import parts from './parts.js' with { type: 'text' };
import question from './question.js' with { type: 'text' };
import results from './results.js' with { type: 'text' };
import rotation from './rotation.js' with { type: 'text' };
import style from './style.css' with { type: 'text' };

export const COMPONENTS = {
  'draw.js': draw,
  'html.js': html,
  'key-row.js': keyRow,
  'keys.css': keysStyle,
  'keys-list.js': keysList,
  'listed-key.js': listedKey,
  'new-key.js': newKey,
  'parts.js': parts,
  'question.js': question,
  'results.js': results,
  'rotation.js': rotation,
  'style.css': style,
};
