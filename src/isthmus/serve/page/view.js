// The document view: the document itself, why it was found, what is known about it, and its neighbours.

import { api } from "./api.js";
import { byId, closeButton, closeOnBackdrop, el, icon } from "./dom.js";
import { sentences } from "./explain.js";
import { addFilter } from "./filters.js";
import { focusOn } from "./grid.js";
import { kindOf, nameOf, secondOf } from "./kinds.js";
import { picture, player, thumbnail } from "./pictures.js";
import { address, go, state } from "./state.js";
import { words } from "./words.js";

const NEIGHBOURS = 12;
const dialog = byId("document");
let shown = ""; // id of the document in the view
let hits = () => [];
let likeThis = () => {};

/** Open, change or close the view as the state says. */
export async function follow() {
  if (!state.doc) {
    if (dialog.open) dialog.close();
    return;
  }
  if (dialog.open && shown === state.doc) return;
  shown = state.doc;
  const list = hits();
  const known = list.find((hit) => hit.id === state.doc);
  let found = known;
  try {
    found ??= await api.document(state.c, state.doc);
  } catch (error) {
    found = { id: state.doc, parts: [], text: error.message, metadata: {} };
  }
  if (state.doc !== found.id) return; // another was opened meanwhile
  fill(found, list);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  neighbours(found.id);
}

function fill(hit, list) {
  const kind = kindOf(hit);
  const at = list.findIndex((one) => one.id === hit.id);
  const scored = hit.score !== undefined;
  dialog.replaceChildren(
    el("header", {},
      el("span", { class: "kind" }, icon(kind.icon), kind.word),
      el("span", { class: "gap" }),
      step("left", words.previous, list[at - 1], at > 0),
      step("right", words.next, list[at + 1], at >= 0 && at < list.length - 1),
      closeButton(() => dialog.close())),
    el("div", { class: "body" },
      el("div", { class: "content" }, contentOf(hit)),
      el("div", { class: "side" },
        el("h2", { id: "document-name", tabindex: "-1" }, nameOf(hit)),
        scored && !state.raw && hit.probability !== null
          ? el("p", { class: "big" }, el("b", {}, words.percent(hit.probability)), ` ${words.match}`) : null,
        el("button", { type: "button", class: "main", onclick: () => likeThis(hit.id) }, icon("like"), words.moreLike),
        ...(scored ? whyOf(hit) : []),
        ...aboutOf(hit))),
    el("section", { class: "neighbours", "aria-labelledby": "neighbours-name" },
      el("h3", { id: "neighbours-name" }, words.neighbours),
      el("div", { id: "neighbours" }, el("p", { class: "dim" }, words.loading))),
  );
}

function step(way, label, to, there) {
  if (!there) return null;
  return el("button", {
    type: "button", class: "round", "aria-label": label, title: label, onclick: () => go({ doc: to.id }, { replace: true }),
  }, icon(way));
}

function contentOf(hit) {
  const made = hit.parts.map((part, number) => {
    if (part.kind === "image") return picture(part.url, nameOf(hit));
    if (part.kind === "audio" || part.kind === "video") return player(part, nameOf(hit), secondOf(hit));
    if (part.content === null) return part.url ? el("a", { href: part.url, download: "" }, words.original) : null;
    return el("p", { class: "text" }, ...withPassage(part.content, hit.passage?.part === number ? hit.passage : null));
  });
  return made.length ? made : [el("p", { class: "text" }, hit.text ?? "")];
}

/** A text with its heading, and its best passage marked; the passage counts characters, not UTF-16 units. */
function withPassage(text, passage) {
  const head = /^\s*#{1,6}\s+([^\n]+)\n*/.exec(text);
  const title = head ? [el("b", {}, head[1])] : [];
  const before = head ? [...head[0]].length : 0;
  const all = [...reflowed(text)].slice(before);
  const cut = (from, to) => all.slice(from, to).join("");
  const [start, stop] = passage ? [Math.max(0, passage.start - before), passage.stop - before] : [0, 0];
  if (stop <= start || stop - start >= all.length) return [...title, all.join("")];
  return [...title, cut(0, start), el("mark", { class: "passage" }, cut(start, stop)), cut(stop)];
}

/** Join lines that were broken at a fixed width; as many characters as before. */
const reflowed = (text) => text.replace(/(?<=[^\n]{60})\n(?=[\p{L}\p{N}"'(])/gu, " ");

function whyOf(hit) {
  const said = sentences(hit, Boolean(state.raw));
  const passage = hit.passage && hit.text && hit.passage.text.length < hit.text.length ? [words.explain.passage] : [];
  return [el("h3", {}, words.why), el("ul", { class: "why-list" }, [...said, ...passage].map((one) => el("li", {}, one)))];
}

function aboutOf(hit) {
  const rows = [[words.id, hit.id, null], ...Object.entries(hit.metadata).map(([name, value]) => [name, value, name])];
  return [
    el("h3", {}, words.about),
    el("dl", {}, rows.map(([name, value, field]) => [el("dt", {}, name), el("dd", {}, valueOf(value, field))])),
  ];
}

function valueOf(value, field) {
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  if (field === null || typeof value === "object") return text;
  return el("button", {
    type: "button", class: "link", title: words.onlyThese(field, text), onclick: () => addFilter(field, "is", text),
  }, text);
}

async function neighbours(id) {
  let found;
  try {
    found = (await api.similar(state.c, id, { k: NEIGHBOURS })).hits;
  } catch (error) {
    found = error;
  }
  const place = byId("neighbours");
  if (shown !== id || !place) return;
  if (found instanceof Error || !found.length) {
    place.replaceChildren(el("p", { class: "dim" }, found instanceof Error ? found.message : words.noNeighbours));
    return;
  }
  place.replaceChildren(el("ul", { class: "strip-list" }, found.map(small)));
}

function small(hit) {
  const image = hit.parts.find((part) => part.kind === "image");
  const face = image ? thumbnail(image.url) : hit.text
    ? el("span", { class: "lines" }, hit.text.slice(0, 160).replace(/^\s*#+\s*/, "")) : icon(kindOf(hit).icon);
  const open = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go({ doc: hit.id });
  };
  return el("li", { class: "card" }, el("div", { class: image ? "face" : "face words" }, face),
    el("a", { class: "name", href: address({ doc: hit.id }), onclick: open }, nameOf(hit), el("span", { class: "unseen" }, `, ${kindOf(hit).word}`)));
}

/** Start; `listed` returns the documents in the grid, `like` searches by one. */
export function start(listed, like) {
  hits = listed;
  likeThis = like;
  closeOnBackdrop(dialog);
  dialog.addEventListener("close", () => {
    const last = shown;
    shown = "";
    dialog.replaceChildren();
    if (state.doc) go({ doc: "" }, { replace: true });
    focusOn(last);
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.target.closest("input, audio, video")) return;
    const list = hits();
    const at = list.findIndex((one) => one.id === state.doc);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1 }[event.key];
    if (at < 0 || to === undefined || !list[to]) return;
    event.preventDefault();
    go({ doc: list[to].id }, { replace: true });
    byId("document-name").focus();
  });
}
