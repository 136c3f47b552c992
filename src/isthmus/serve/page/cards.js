// One document in the grid: its face (a picture, words, both, a sound), and below it what it is and how well it matches.

import { el, icon, real, sized } from "./dom.js";
import { move, withMarks } from "./explain.js";
import { isPlayed, kindOf, momentOf, nameOf, spanOf, titled } from "./kinds.js";
import { thumbnail } from "./pictures.js";
import { playable } from "./players.js";
import { address } from "./state.js";
import { words } from "./words.js";

const SHOWN = 600; // characters of a text
const BRIEF = 150; // characters of a text that is set larger

/** A card: its link covers all of it. `context` has `raw` (the ranking) and `marks` (the words of the query). */
export function card(hit, context) {
  const made = el("li", { "data-id": hit.id, class: "card" }, face(hit, context.marks), el("a", { class: "line" }), el("div"));
  update(made, hit, context);
  return made;
}

/** Show a hit's place in another ranking; its face and its link stay. */
export function update(made, hit, { raw }) {
  const kind = kindOf(hit);
  const moved = raw ? null : move(hit);
  const link = made.querySelector("a");
  link.href = address({ doc: hit.id });
  link.replaceChildren(...real([
    icon(kind.icon),
    el("span", { class: "name" }, nameOf(hit)),
    matchOf(hit, raw),
    el("span", { class: "unseen" }, [unit(hit, raw), kind.word, moved?.long].filter(Boolean).join(", ")),
  ]));
  made.lastElementChild.replaceChildren(...real([
    meter(hit, raw),
    el("span", { class: "why", "aria-hidden": "true" }, el("span", {}, kind.word), timeOf(hit), movedChip(moved), duplicatesOf(hit)),
  ]));
}

function matchOf(hit, raw) {
  if (hit.score === undefined) return null;
  if (raw || hit.probability === null) return el("span", { class: "match" }, hit.similarity.toFixed(2));
  return el("span", { class: "match", title: words.matchLong(hit.probability) }, words.chance(hit.probability));
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
  const text = (hit.passage?.text ?? hit.text)?.replace(/^[\s.,;:!?)]+/, ""); // a passage may begin behind a sentence
  if (image && text) return el("div", { class: "face both" }, thumbnail(image.url), el("span", { class: "strip" }, withMarks(short(text), marks)));
  if (image) return el("div", { class: "face" }, thumbnail(image.url));
  const number = hit.parts.findIndex(isPlayed);
  if (number >= 0) {
    const span = spanOf(hit, number);
    const face = playable(hit.parts[number], nameOf(hit), span, span && momentOf(span));
    if (text) face.append(el("span", { class: "strip" }, withMarks(short(text), marks)));
    return face;
  }
  if (text) return el("div", { class: text.length < BRIEF ? "face words brief" : "face words" }, paragraph(text, marks));
  return el("div", { class: "face other" }, icon(kindOf(hit).icon));
}

function paragraph(text, marks) {
  const { title, rest } = titled(text.slice(0, SHOWN));
  return [
    title ? el("b", { dir: "auto" }, withMarks(title, marks)) : null,
    el("span", { class: "lines", dir: "auto" }, withMarks(rest.replace(/\s+/g, " "), marks)),
  ];
}

const short = (text) => text.slice(0, 200).replace(/^\s*#{1,6}\s+/, "").replace(/\s+/g, " ");
