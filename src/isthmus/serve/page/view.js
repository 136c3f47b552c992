// The document view: the document itself, why it was found, what is known about it, and its neighbours.

import { api } from "./api.js";
import { byId, closeButton, closeOnBackdrop, el, icon } from "./dom.js";
import { numbers, sentences } from "./explain.js";
import { addFilter } from "./filters.js";
import { focusOn } from "./grid.js";
import { isPlayed, kindOf, momentOf, nameOf, spanOf, titled } from "./kinds.js";
import { offerMap, toggleMap } from "./maps.js";
import { picture, thumbnail } from "./pictures.js";
import { momentButton, player, probe } from "./players.js";
import { address, go, state } from "./state.js";
import { passageMarks, textOf } from "./texts.js";
import { words } from "./words.js";

const NEIGHBOURS = 12;
const UNTOLD = ["path", "name", "ocr_parts", "pages"]; // the id tells them, the heading does, or they are for programs
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
  const [id, list] = [state.doc, hits()];
  shown = id;
  let found = list.find((hit) => hit.id === id);
  try {
    found ??= await api.document(state.c, id);
  } catch (error) {
    found = { id, parts: [], text: error.message, metadata: {} };
  }
  if (state.doc !== id) return; // another was opened meanwhile
  fill(found, list);
  if (!dialog.open) {
    dialog.showModal();
    byId("document-name").focus({ preventScroll: true }); // not a button, which would look chosen
  }
  dialog.scrollTop = 0;
  offerMap(found, () => plain(found));
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
          ? el("p", { class: "big" }, el("b", {}, words.chance(hit.probability)), ` ${words.match}`) : null,
        el("button", { type: "button", class: "main", id: "like", onclick: () => likeThis(hit.id) }, icon("like"), words.moreLike),
        el("div", { id: "map", class: "map" }),
        ...(scored ? whyOf(hit) : []),
        ...aboutOf(hit)),
      el("section", { class: "neighbours", "aria-labelledby": "neighbours-name" },
        el("h3", { id: "neighbours-name" }, words.neighbours),
        el("div", { id: "neighbours" }, el("p", { class: "dim" }, words.loading)))),
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
    if (part.kind === "image") return picture(part.url, nameOf(hit), number);
    if (isPlayed(part)) return played(hit, part, number);
    if (part.content === null) return part.url ? el("a", { href: part.url, download: "" }, words.original) : null;
    return hit.metadata.ocr_parts?.includes(number)
      ? el("details", { class: "read" }, el("summary", {}, words.readText), plainText(hit, number)) : plainText(hit, number);
  });
  const kinds = hit.parts.map(({ kind }) => kind).join("+");
  if (kinds === "text+image") made.reverse(); // a caption is read after its picture
  return made.length ? made : [el("p", { class: "text" }, hit.text ?? "")];
}

function plainText(hit, number) {
  const { content } = hit.parts[number];
  return textOf(content, number, hit.passage?.part === number ? passageMarks(content, hit.passage) : []);
}

/** A player, and the moment that matches. The sound of a video is a part of its own, and needs no second player. */
function played(hit, part, number) {
  const span = spanOf(hit, number);
  const made = player(part, nameOf(hit), span);
  const cover = part.kind === "audio" ? el("div", { class: "cover" }, icon("wave", "wave")) : null;
  const place = el("div", { class: "played" }, cover, made, span ? momentButton(made, span, momentOf(span)) : null);
  const video = hit.parts.find((other) => other.kind === "video");
  if (part.kind === "audio" && video) {
    place.hidden = true;
    Promise.all([probe(part.url), probe(video.url)]).then(([one, other]) => { place.hidden = one.tag !== null && one.tag === other.tag; });
  }
  return place;
}

/** Show the pictures and texts as they are, without a map. */
function plain(hit) {
  for (const heat of dialog.querySelectorAll("canvas.heat")) heat.remove();
  for (const text of dialog.querySelectorAll(".text[data-part]")) text.replaceWith(plainText(hit, Number(text.dataset.part)));
}

function whyOf(hit) {
  const said = sentences(hit, Boolean(state.raw));
  const passage = hit.passage && hit.text && hit.passage.text.length < hit.text.length ? [words.explain.passage] : [];
  return [
    el("h3", {}, words.why),
    el("ul", { class: "why-list" }, [...said, ...passage].map((one) => el("li", {}, one))),
    el("details", { class: "numbers" }, el("summary", {}, words.details), table(numbers(hit, Boolean(state.raw)))),
  ];
}

const table = (rows) => el("dl", {}, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

/** What is known about a document: its file once, sizes and times as people write them. */
function aboutOf(hit) {
  const rows = Object.entries(hit.metadata).filter(([name, value]) => !UNTOLD.includes(name) && ![nameOf(hit), "."].includes(value));
  const file = hit.metadata.path === undefined ? words.id : words.file;
  return [el("h3", {}, words.about), table([[file, hit.id], ...rows.map(([name, value]) => row(name, value))])];
}

function row(name, value) {
  if (name === "bytes" && Number.isInteger(value)) return [words.size, words.bytes(value)];
  if (name === "modified" && !Number.isNaN(Date.parse(value))) return [words.modified, words.date(value)];
  return [name, valueOf(value, name)];
}

function valueOf(value, field) {
  if (typeof value === "object") return JSON.stringify(value);
  const text = String(value);
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
    const unable = found.status === 400; // the collection is not calibrated for queries of this kind
    if (unable) byId("like").hidden = true;
    const said = unable ? words.noNeighboursOfKind : found instanceof Error ? found.message : words.noNeighbours;
    place.replaceChildren(el("p", { class: "dim" }, said));
    return;
  }
  place.replaceChildren(el("ul", { class: "strip-list" }, found.map(small)));
}

function small(hit) {
  const image = hit.parts.find((part) => part.kind === "image");
  const face = image ? thumbnail(image.url) : hit.text
    ? el("span", { class: "lines" }, titled(hit.text.slice(0, 240)).rest) : icon(kindOf(hit).icon);
  const open = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go({ doc: hit.id });
  };
  return el("li", { class: "card" }, el("div", { class: image ? "face" : hit.text ? "face words" : "face other" }, face),
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
    if (event.target.closest("input, audio, video") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "m") toggleMap();
    const list = hits();
    const at = list.findIndex((one) => one.id === state.doc);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1 }[event.key];
    if (at < 0 || to === undefined || !list[to]) return;
    event.preventDefault();
    go({ doc: list[to].id }, { replace: true });
    byId("document-name").focus();
  });
}
