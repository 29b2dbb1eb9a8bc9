// The operators' part of the page /keys, as one module that the page loads for whoever has the claim of admins.

import { type Fragment, inlineFragment } from '../../pages/inline.ts';
import openedOwner from './opened-owner.js' with { type: 'text' };
import operator from './operator.js' with { type: 'text' };
import operatorKeys from './operator-keys.js' with { type: 'text' };
import operatorSearch from './operator-search.js' with { type: 'text' };
import ownersList from './owners-list.js' with { type: 'text' };
import plan from './plan.js' with { type: 'text' };

const PARTS = {
  'opened-owner.js': openedOwner,
  'operator.js': operator,
  'operator-keys.js': operatorKeys,
  'operator-search.js': operatorSearch,
  'owners-list.js': ownersList,
  'plan.js': plan,
};

export const createPart = (): Fragment => inlineFragment('operator.js', 'operatorPart', PARTS);
