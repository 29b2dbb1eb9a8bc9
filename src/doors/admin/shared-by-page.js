// What the page gives to this part when it loads it: its session, requests, and the forms of keys.

/** Its names are in part-loader.js of the page. */
export const given = {};
