// Why a hit is where it is, in plain words.

import { words } from "./words.js";

const SMALL = 0.0005; // what rounds to 0.000 is not worth a sentence

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

/** The sentences of the document view. */
export function sentences(hit, raw) {
  const say = words.explain;
  if (raw) return [say.similarity(hit.similarity), say.rawOnly];
  const why = hit.explanation;
  if (!why) return hit.probability === null ? [] : [say.probability(hit.probability)];
  const parts = Object.entries(why.parts);
  return [
    say.place(hit.rank, hit.before),
    why.raised === null ? null : say.raised,
    say.similarity(why.similarity),
    parts.length > 1 ? say.parts(parts.map(([name, value]) => say.part(words.kind[name] ?? name, value)).join(", ")) : null,
    Math.abs(why.shift) > SMALL ? say.shift(why.shift) : null,
    why.bias > SMALL ? say.hub(why.bias) : null,
    say.scale(why.score),
    why.words === null ? null : say.words(why.words),
    hit.probability === null ? null : say.probability(hit.probability),
  ].filter(Boolean);
}

/** The words of a query that are worth marking. */
export function marked(query) {
  return [...new Set(query.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? [])].filter((word) => !words.common.includes(word));
}

/** A text with the words of the query marked, as nodes. */
export function withMarks(text, found) {
  if (!found.length) return [text];
  const escaped = found.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])((?:${escaped.join("|")})s?)(?![\\p{L}\\p{N}])`, "giu");
  return text.split(pattern).map((piece, at) => {
    if (at % 2 === 0) return piece;
    const mark = document.createElement("mark");
    mark.textContent = piece;
    return mark;
  }).filter((piece) => piece !== "");
}
