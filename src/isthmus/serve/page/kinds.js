// What a document is, in one word and one icon; and its name.

import { words } from "./words.js";

const CAPTION = 140; // characters of a text that is the name of what it stands beside

/** The icon and the word of a document's kind. */
export function kindOf(document) {
  const modality = document.modality ?? modalityOf(document);
  const { page, pages } = document.metadata;
  if (Number.isInteger(page)) return { icon: "page", word: words.pageOf(page, pages) };
  return { icon: iconOfModality(modality), word: words.kind[modality] ?? joined(modality, words.kind) };
}

/** Kinds that have no word of their own are called by their parts: a sound with text. */
const joined = (modality, known) => modality.split("+").map((kind) => known[kind] ?? kind).join(" + ");

/** The name of all documents of a kind. */
export const nameOfKind = (modality) => words.kindsOf[modality] ?? joined(modality, words.kindsOf);

export function iconOfModality(modality) {
  const parts = modality.split("+");
  if (modality === "image+text") return "both";
  return ["video", "audio", "image", "text"].find((kind) => parts.includes(kind)) ?? "other";
}

export const isPlayed = ({ kind }) => kind === "audio" || kind === "video";

/** The moment of a part that matches, { start, stop } in seconds, or null. */
export function spanOf(hit, number) {
  const timed = hit.segments?.find(({ start, parts }) => start !== null && parts[0] === number);
  return timed && isPlayed(hit.parts[number]) ? { start: timed.start, stop: timed.stop } : null;
}

/** A moment as people write it: 0:42–0:47. */
export const momentOf = ({ start, stop }) => `${clock(start)}–${clock(stop)}`;

function clock(seconds) {
  const [hours, minutes, rest] = [seconds / 3600, seconds / 60 % 60, seconds % 60].map(Math.floor);
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

export function modalityOf(document) {
  return [...new Set(document.parts.map((part) => part.kind))].sort().join("+");
}

/** The name of a document's file, or the last part of its id; the number of a page stands beside it. */
export function fileOf(document) {
  const { name, page } = document.metadata;
  const last = document.id.split("/").pop();
  return (Number.isInteger(page) ? last.replace(/#page=\d+$/, "") : last) || (typeof name === "string" && name) || words.untitled;
}

/** What a document is called: its title, the heading of its text, the words beside its picture, or its file. */
export function nameOf(document) {
  const { title, page, ocr_parts: read } = document.metadata;
  if (typeof title === "string" && title.trim()) return title;
  const text = read || Number.isInteger(page) ? "" : (document.text ?? "").trim();
  const caption = text.length <= CAPTION && document.parts.some(({ kind }) => kind !== "text");
  return titled(text.slice(0, 400)).title || (caption && text) || fileOf(document);
}

/** A text as a title and the rest, without the marks of Markdown. */
export function titled(text) {
  const clean = text.replace(/^\s*#{1,6}\s+/, "").trim();
  const end = clean.indexOf("\n");
  const first = end < 0 ? clean : clean.slice(0, end).trim();
  if (end < 0 || first.length > 80) return { title: "", rest: clean };
  return { title: first, rest: clean.slice(end).trim() };
}
