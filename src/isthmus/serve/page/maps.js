// Maps: which words and which patches of a picture made a document match, fetched when they are asked for.

import { api } from "./api.js";
import { byId, el, real } from "./dom.js";
import { hottest, layer } from "./heat.js";
import { query } from "./query.js";
import { state } from "./state.js";
import { textOf } from "./texts.js";
import { words } from "./words.js";

const FAINT = 0.15; // of the strongest: words below have no colour
const LEAST = 5e-5; // a share that is a rounding error
const WEAK = { words: 0.002, patches: 0.0005 }; // the deepest colour is for a share of at least this
const LISTED = 3;
const known = new Map(); // collection → whether its encoder has maps
let on = false; // stays as it is from one document to the next
let serial = 0; // of the document in the view

/** Offer a switch for the map of a hit that was found by words or a picture; `restore` shows it without. */
export async function offerMap(hit, restore) {
  serial += 1;
  const mine = serial;
  const asked = query();
  const mappable = hit.parts.some(({ kind }) => kind === "image" || kind === "text");
  if (hit.score === undefined || asked === null || !mappable || !(await hasMaps(state.c)) || mine !== serial) return;
  const place = byId("map");
  if (!place) return;
  const control = el("button", { type: "button", role: "switch", class: "switch", "aria-checked": String(on), "aria-keyshortcuts": "m" }, words.map.show);
  const said = el("div", { class: "map-said", role: "status" });
  let made = null;
  const show = async () => {
    if (said.contains(document.activeElement)) control.focus(); // what has the focus goes away
    control.setAttribute("aria-checked", String(on));
    if (!on) {
      said.replaceChildren();
      restore();
      return;
    }
    said.textContent = words.map.making;
    try {
      made ??= await api.map(state.c, hit.id, { query: asked, calibration: state.raw ? "none" : null });
      if (mine === serial && on) draw(hit, made, said);
    } catch (error) {
      if (mine === serial && on) said.textContent = error.message;
    }
  };
  control.addEventListener("click", () => {
    on = !on;
    show();
  });
  place.replaceChildren(control, said);
  if (on) await show();
}

/** Turn the map on or off from the keyboard. */
export const toggleMap = () => byId("map")?.querySelector("button")?.click();

async function hasMaps(name) {
  if (!known.has(name)) known.set(name, await api.hasMaps(name).catch(() => false));
  return known.get(name);
}

function draw(hit, made, said) {
  const { document: found, parts } = made;
  const asked = query();
  const text = typeof asked === "string" ? asked : asked?.text;
  const [lines, shares] = [[], []];
  if (found.patches) lines.push(over(found.patches, parts.patches, shares));
  if (found.words) lines.push(colourWords(hit.parts[parts.words].content, found.words, parts.words, shares));
  if (text && made.query.words) lines.push(el("p", {}, words.map.asked, " ", spansOf(text, made.query.words)));
  if (!found.patches && !found.words) lines.push(el("p", {}, words.map.none));
  const rows = shares.map(([name, share]) => [el("dt", {}, name), el("dd", {}, words.map.share(share))]);
  const details = rows.length ? el("details", { class: "numbers" }, el("summary", {}, words.map.details), el("dl", {}, rows)) : null;
  said.replaceChildren(...real([lines, made.notes.map((note) => el("p", {}, note)), details]));
}

const strongest = (shares) => Math.max(...shares.map(Math.abs), 0);

/** The shares of the words of a text that say something: not "a", not a comma. */
function telling(all, shares) {
  const named = shares.map(({ start, end, share }) => ({ start, end, share, word: all.slice(start, end).join("") }));
  return named.filter(({ word }) => /[\p{L}\p{N}]/u.test(word) && !words.common.includes(word.toLowerCase().trim()));
}

/** Lay heat over a picture; returns where it is hottest, in words, and lists its share. */
function over(patches, number, shares) {
  const most = strongest(patches.flat());
  if (most < LEAST) return el("p", {}, words.map.flat);
  document.querySelector(`#document .stack[data-part="${number}"]`)?.append(layer(patches, Math.max(most, WEAK.patches)));
  const { share, down, across } = hottest(patches);
  shares.push([words.map.patch, share]);
  return el("p", {}, words.map.hottest(down, across));
}

/** Colour the words of a text; returns the strongest of them, in words, and lists their shares. */
function colourWords(text, found, number, shares) {
  const all = [...text];
  const told = telling(all, found);
  const place = document.querySelector(`#document .text[data-part="${number}"]`);
  place?.closest("details")?.setAttribute("open", "");
  place?.replaceWith(textOf(text, number, marksOf(told)));
  const named = told.filter(({ share }) => share >= LEAST)
    .sort((a, b) => b.share - a.share)
    .filter(({ word }, at, list) => list.findIndex((one) => one.word === word) === at).slice(0, LISTED);
  shares.push(...named.map(({ word, share }) => [word, share]));
  return el("p", {}, named.length ? words.map.strongest(named) : words.map.flatWords);
}

function marksOf(shares) {
  const most = Math.max(strongest(shares.map(({ share }) => share)), WEAK.words);
  return shares.map(({ start, end, share }) => ({ start, stop: end, make: (shown) => weighted(shown, share, most) }));
}

function weighted(shown, share, most) {
  const strength = Math.abs(share) / most;
  const made = el("span", { title: words.map.share(share) }, shown);
  if (strength < FAINT) return made;
  made.className = share > 0 ? "weighted for" : "weighted against";
  made.style.setProperty("--a", strength.toFixed(2));
  return made;
}

/** The words of the query, as they met the document. */
function spansOf(text, shares) {
  const all = [...text];
  let at = 0;
  const made = marksOf(telling(all, shares)).flatMap(({ start, stop, make }) => {
    const before = all.slice(at, start).join("");
    at = stop;
    return [before, make(all.slice(start, stop).join(""))];
  });
  return el("span", { class: "asked" }, made, all.slice(at).join(""));
}
