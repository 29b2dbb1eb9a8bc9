// What the operators' part may use of this page's scripts. document.ts fills it in; where there is no such part, it is empty.

export const shared = {};
