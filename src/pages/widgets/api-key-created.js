// The widget of create_api_key and rotate_api_key: shows the new key.

import { html } from './draw.js';
import { newKey } from './new-key.js';
import { hasKey } from './question.js';
import { widget } from './widget.js';

widget('api-key-created', {
  loading: 'Creating the key…',
  nothing: 'No key to show.',
  underWay({ name, keyId }) {
    if (typeof name === 'string') return html`Creating “<bdi>${name}</bdi>”…`;
    return keyId === undefined ? undefined : 'Rotating the key…';
  },
  show: ({ output }) => (hasKey(output) ? newKey({ made: output }) : null),
});
