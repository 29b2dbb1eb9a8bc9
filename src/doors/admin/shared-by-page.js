// Names what this part uses of the page's own scripts (doors/page). The page hands it over (inlineFragment in
// pages/inline.ts), so nothing of this file is in the part.

export let callTool, hashOf, keyFields, keyIn, keyPanels, limitFields, limitsIn, page, request;
