// The text of a document: its heading, its best passage or its weighted words, and of a long text the part that matters.

import { el } from "./dom.js";
import { words } from "./words.js";

const LONG = 8000; // characters; of a longer text a part is shown first
const BEFORE = 700; // characters before the passage
const AFTER = 3500; // and from its beginning on

/** A text as an element. `marks` are spans of characters, { start, stop, make }, in order; `make` returns the element. */
export function textOf(text, number, marks, { whole = false } = {}) {
  const place = el("div", { class: "text", dir: "auto", "data-part": number });
  const all = [...reflowed(text)];
  const [from, to] = whole || all.length <= LONG ? [0, all.length] : around(all, marks[0]?.start ?? 0);
  const more = () => {
    const next = textOf(text, number, marks, { whole: true });
    place.replaceWith(next);
    next.tabIndex = -1;
    next.focus({ preventScroll: true });
  };
  place.append(...(from ? ["… "] : []), ...pieces(all, from, to, marks), ...(to < all.length ? [" …"] : []));
  if (from || to < all.length) place.append(el("button", { type: "button", class: "quiet all", onclick: more }, words.wholeText(all.length)));
  return place;
}

/** What is shown first of a long text; it begins and ends between words. */
function around(all, start) {
  const space = (at) => /\s/.test(all[at]);
  let [from, to] = [Math.max(0, start - BEFORE), Math.min(all.length, start + AFTER)];
  while (from && from < start && !space(from - 1)) from += 1;
  while (to < all.length && to > start && !space(to)) to -= 1;
  return [from, to];
}

/** The characters of a text between two places, with its heading and the marks as elements. */
function pieces(all, from, to, marks) {
  const head = from ? null : /^\s*#{1,6}\s+([^\n]+)\n*/.exec(all.slice(0, 400).join(""));
  if (!head) return spans(all, from, to, marks);
  const begin = [...head[0].slice(0, head[0].indexOf(head[1]))].length;
  const end = begin + [...head[1]].length;
  return [el("b", {}, spans(all, begin, end, marks)), ...spans(all, Math.min(to, [...head[0]].length), to, marks)];
}

function spans(all, from, to, marks) {
  const made = [];
  let at = from;
  for (const { start, stop, make } of marks) {
    const [first, last] = [Math.max(start, at), Math.min(stop, to)];
    if (last <= first) continue;
    made.push(all.slice(at, first).join(""), make(all.slice(first, last).join("")));
    at = last;
  }
  made.push(all.slice(at, to).join(""));
  return made.filter((one) => one !== "");
}

/** Join lines that were broken at a fixed width; as many characters as before. */
const reflowed = (text) => text.replace(/(?<=[^\n]{60})\n(?=[\p{L}\p{N}"'(])/gu, " ");

/** The best passage of a text as a mark; none if it is the whole text. Passages count characters, not UTF-16 units. */
export function passageMarks(text, passage) {
  if (!passage || passage.stop - passage.start >= [...text].length) return [];
  return [{ start: passage.start, stop: passage.stop, make: (shown) => el("mark", { class: "passage" }, shown) }];
}
