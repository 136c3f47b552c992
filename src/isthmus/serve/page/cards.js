// One document in the grid: its face (a picture, words, both, a sound), and below it what it is and how well it matches.

import { el, icon, real, sized } from "./dom.js";
import { fromMark, move, sentences, withMarks } from "./explain.js";
import { fileOf, kindOf, momentOf, nameOf, spanOf, titled } from "./kinds.js";
import { thumbnail } from "./pictures.js";
import { playable } from "./players.js";
import { address } from "./state.js";
import { words } from "./words.js";

const SHOWN = 600; // characters of a text
const BRIEF = 200; // characters of a text that is set larger
const SEEN = 240; // characters of a text that its face shows at least
const QUOTED = 220; // characters of the text beside a picture or a sound
const BEGIN = 75; // of them, those that are seen for sure

/** A card: its link covers all of it. `context` has `raw` (the ranking) and `marks` (the words of the query). */
export function card(hit, context) {
  const made = el("li", { "data-id": hit.id, class: "card" }, face(hit, context.marks), el("a", { class: "line" }), el("div", { class: "below" }));
  update(made, hit, context);
  return made;
}

/** Show a hit's place in another ranking; its face and its link stay. */
export function update(made, hit, { raw, marks }) {
  const kind = kindOf(hit);
  const moved = raw ? null : move(hit);
  const [name, file] = [nameOf(hit), fileOf(hit)];
  const link = made.querySelector("a");
  link.href = address({ doc: hit.id });
  link.replaceChildren(...real([
    el("span", { class: "name", dir: "auto" }, withMarks(name, name === file ? [] : marks)),
    matchOf(hit, raw),
    el("span", { class: "unseen" }, [unit(hit, raw), kind.word, moved?.long].filter(Boolean).join(", ")),
  ]));
  made.lastElementChild.replaceChildren(...real([
    meter(hit, raw),
    el("span", { class: "why", "aria-hidden": "true" },
      el("span", { class: "what" }, icon(kind.icon), el("span", {}, kind.icon === "page" || name === file ? kind.word : file)),
      timeOf(hit), movedChip(moved), duplicatesOf(hit)),
    quoteOf(hit, marks, name),
    reasonOf(hit, raw),
  ]));
}

/** The text that was found beside a picture or a sound, where it matches. */
function quoteOf(hit, marks, name) {
  const text = (hit.passage?.text ?? hit.text ?? "").trim().replace(/\s+/g, " ");
  if (hit.score === undefined || !text || text === name || hit.parts.every(({ kind }) => kind === "text")) return null;
  return el("span", { class: "quote", dir: "auto" }, withMarks(fromMark(text, marks, BEGIN).slice(0, QUOTED), marks));
}

/** Why it is here, for a hit that is shown large. */
function reasonOf(hit, raw) {
  return hit.score === undefined ? null : el("span", { class: "reason" }, sentences(hit, raw).slice(0, 2).join(" "));
}

function matchOf(hit, raw) {
  if (hit.score === undefined) return null;
  if (raw || hit.probability === null) return el("span", { class: "match" }, hit.similarity.toFixed(2));
  return el("span", { class: "match", title: words.matchLong(hit.probability) }, words.chance(hit.probability), el("span", { class: "unit", "aria-hidden": "true" }, ` ${words.match}`));
}

/** What the number of a hit measures, for those who hear it. */
function unit(hit, raw) {
  if (hit.score === undefined) return "";
  return raw || hit.probability === null ? words.cosine : words.match;
}

function meter(hit, raw) {
  if (hit.score === undefined) return null;
  const share = raw || hit.probability === null ? hit.similarity : hit.probability;
  return sized(el("span", { class: raw ? "meter raw" : "meter" }), share);
}

function movedChip(moved) {
  return moved && el("span", { class: moved.up ? "moved up" : "moved down", title: moved.long }, moved.short || moved.long);
}

function timeOf(hit) {
  return hit.moment ? el("span", {}, hit.moment) : null;
}

function duplicatesOf(hit) {
  return hit.duplicates?.length ? el("span", {}, words.duplicates(hit.duplicates.length)) : null;
}

function face(hit, marks) {
  const image = hit.parts.find((part) => part.kind === "image");
  if (image) return el("div", { class: "face" }, thumbnail(image.url));
  const [video, sound] = ["video", "audio"].map((kind) => hit.parts.findIndex((part) => part.kind === kind));
  const number = video >= 0 ? video : sound;
  if (number >= 0) {
    const span = spanOf(hit, number) ?? spanOf(hit, sound); // the sound of a video may be what matches
    return playable(hit.parts[number], nameOf(hit), span, span && momentOf(span));
  }
  const text = (hit.passage?.text ?? hit.text)?.replace(/^[\s.,;:!?)]+/, ""); // a passage may begin behind a sentence
  if (text) return el("div", { class: text.length < BRIEF ? "face words brief" : "face words" }, paragraph(text, nameOf(hit), marks));
  return el("div", { class: "face other" }, icon(kindOf(hit).icon));
}

/** A text without its heading, which stands below it as its name. */
function paragraph(text, name, marks) {
  const { title, rest } = titled(text);
  const body = (title && title === name ? rest : text).replace(/^\s*#{1,6}\s+/, "").replace(/\s+/g, " ");
  return el("span", { class: "lines", dir: "auto" }, withMarks(fromMark(body, marks, SEEN).slice(0, SHOWN), marks));
}
