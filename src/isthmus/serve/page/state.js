// What is shown, kept in the address: the back button works, and an address can be sent to somebody.
//
//   #c=demo&q=a+cat&raw=1&kind=image&where=[["year","gte","2000"]]&like=ID&doc=ID
//
// A picture that is searched by is not in the address; it lives as long as the page.

const NAMES = ["c", "q", "raw", "kind", "where", "like", "doc", "health"];

export const state = { c: "", q: "", raw: "", kind: "", where: [], like: "", doc: "", health: "" };
const listeners = [];

function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of NAMES) state[name] = given.get(name) ?? "";
  state.where = conditions(state.where);
}

function conditions(written) {
  try {
    const found = JSON.parse(written || "[]");
    return found.filter((one) => Array.isArray(one) && one.length === 3 && one.every((part) => typeof part === "string"));
  } catch {
    return [];
  }
}

export function address(changes = {}) {
  const next = { ...state, ...changes };
  const shown = new URLSearchParams();
  for (const name of NAMES) {
    const value = name === "where" ? (next.where.length ? JSON.stringify(next.where) : "") : next[name];
    if (value) shown.set(name, value);
  }
  return `#${shown}`;
}

/** Change what is shown. `replace` changes the address without a step for the back button. */
export function go(changes, { replace = false } = {}) {
  const before = { ...state };
  const next = address(changes);
  Object.assign(state, changes);
  if (next !== (location.hash || "#")) history[replace ? "replaceState" : "pushState"](null, "", next);
  for (const listen of listeners) listen(before);
}

/** Call a function with the state before whenever it has changed. */
export function onChange(listen) {
  listeners.push(listen);
}

export function start() {
  read();
  addEventListener("popstate", () => {
    const before = { ...state };
    read();
    for (const listen of listeners) listen(before);
  });
}
