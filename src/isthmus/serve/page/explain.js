// Why a hit is where it is, in plain words.

import { words } from "./words.js";

const SMALL = 0.0005; // what rounds to 0.000 is not worth a sentence
const BEFORE = 40; // characters shown before a marked word
const LEAST = 150; // characters shown at the end of a text
const NEAR = 120; // characters within which words stand together

/** How far calibration moved a hit: places up (positive) or down, a long sentence, or null. */
export function move(hit) {
  const why = hit.explanation;
  if (!why) return null;
  if (why.raised !== null) return { up: true, short: "", long: words.same };
  if (hit.before === undefined) return null;
  if (hit.before === null) return { up: true, short: "", long: words.beyond };
  const places = hit.before - hit.rank;
  if (!places) return null;
  return places > 0
    ? { up: true, short: words.up(places), long: words.upLong(hit.before) }
    : { up: false, short: words.down(-places), long: words.downLong(hit.before) };
}

/** The reasons of the document view, in plain words. */
export function sentences(hit, raw) {
  const say = words.explain;
  if (raw) return [say.rawOnly];
  const why = hit.explanation;
  return [
    hit.probability === null ? null : say.probability(hit.probability),
    why && say.place(hit.rank, hit.before),
    why && why.raised !== null ? say.raised : null,
    why && Math.abs(why.shift) > SMALL ? say.shift(why.shift) : null,
    why && why.bias > SMALL ? say.hub : null,
    why && why.words !== null ? say.words : null,
  ].filter(Boolean);
}

/** The numbers behind them: names and values. */
export function numbers(hit, raw) {
  const say = words.numbers;
  const why = hit.explanation;
  const rows = [[say.similarity, say.plain(why && !raw ? why.similarity : hit.similarity)]];
  if (raw) return rows;
  if (why) {
    const parts = Object.entries(why.parts);
    if (parts.length > 1) rows.push(...parts.map(([name, value]) => [say.part(words.kind[name] ?? name), say.plain(value)]));
    if (Math.abs(why.shift) > SMALL) rows.push([say.shift, say.signed(why.shift)]);
    if (why.bias > SMALL) rows.push([say.hub, say.signed(-why.bias)]);
    if (why.words !== null) rows.push([say.words, say.signed(why.words)]);
    rows.push([say.score, say.plain(why.score)]);
  }
  if (hit.probability !== null) rows.push([say.probability, words.chance(hit.probability)]);
  return rows;
}

/** The words of a query that are worth marking. */
export function marked(query) {
  return [...new Set(query.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? [])].filter((word) => !words.common.includes(word));
}

function patternOf(found) {
  const escaped = found.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`(?<![\\p{L}\\p{N}])((?:${escaped.join("|")})s?)(?![\\p{L}\\p{N}])`, "giu");
}

/** A text from where most of the marked words stand together, if they would not be seen otherwise. */
export function fromMark(text, found, seen) {
  if (!found.length) return text;
  const places = [...text.matchAll(patternOf(found))].map(({ index, 0: word }) => ({ index, word: word.toLowerCase() }));
  const together = ({ index }) => new Set(places.filter((one) => one.index >= index && one.index < index + NEAR).map(({ word }) => word)).size;
  const best = places.reduce((one, other) => (one && together(one) >= together(other) ? one : other), null);
  if (!best || best.index < seen) return text;
  const start = text.lastIndexOf(" ", Math.min(best.index - BEFORE, text.length - LEAST));
  return start > 0 ? `… ${text.slice(start + 1)}` : text;
}

/** A text with the words of the query marked, as nodes. */
export function withMarks(text, found) {
  if (!found.length) return [text];
  return text.split(patternOf(found)).map((piece, at) => {
    if (at % 2 === 0) return piece;
    const mark = document.createElement("mark");
    mark.textContent = piece;
    return mark;
  }).filter((piece) => piece !== "");
}
