// What the grid shows: the hits of a search in both rankings, the documents that pass the filters, or a selection.

import { api } from "./api.js";
import { where } from "./filters.js";
import { state } from "./state.js";

const PAGE = 30; // hits; later pages have twice as many
const DEPTH = 10_000; // hits that the server ranks
const SAMPLE = 48; // documents of each kind, of which the start page shows some
const SHOWN = 36;

/** Search in both rankings at once, so that switching between them needs no answer. */
export async function search(query, offset, signal) {
  const k = Math.min(offset ? 2 * PAGE : PAGE, DEPTH - offset);
  const options = { k, offset, where: where() };
  const fair = { ...options, explain: true };
  const raw = { ...options, calibration: "none" };
  if (query !== null) {
    const { results } = await api.search(state.c, { searches: [{ ...fair, query }, { ...raw, query }] }, signal);
    return both(results[0].hits, results[1].hits, offset, k);
  }
  const found = await Promise.all([fair, raw].map((body) => api.similar(state.c, state.like, body, signal)));
  return both(found[0].hits, found[1].hits, offset, k);
}

const both = (calibrated, raw, offset, k) => ({
  calibrated: compared(calibrated, raw), raw, full: calibrated.length === k && offset + k < DEPTH,
});

/** A page of hits after those before it. */
export function merged(before, next) {
  const raw = [...before.raw, ...next.raw];
  return { calibrated: compared([...before.calibrated, ...next.calibrated], raw), raw, full: next.full };
}

/** Say of each hit which place it has by raw cosine: `before`; null beyond 300, undefined if it is not known.
 *
 * The server's explanations count all documents. Among those that pass a filter, only the list itself tells.
 */
function compared(calibrated, raw) {
  const places = new Map(raw.map((hit) => [hit.id, hit.rank]));
  const whole = !where() && !state.like;
  return calibrated.map((hit) => ({ ...hit, before: places.get(hit.id) ?? (whole ? hit.explanation?.rank_before : undefined) }));
}

/** List the documents that pass the filters, a page at a time. */
export async function list(after, signal) {
  const { documents, next } = await api.list(state.c, { limit: PAGE, after, where: where(), signal });
  return { documents, next };
}

/** Some documents of every kind, side by side, for the start page. */
export async function selection(modalities, signal) {
  const kinds = Object.keys(modalities);
  const found = await Promise.all(kinds.map((modality) => api.list(state.c, { limit: SAMPLE, where: { modality }, signal })));
  const total = found.reduce((sum, { documents }) => sum + documents.length, 0);
  const picked = found.map(({ documents }) => spread(documents, Math.ceil(SHOWN * documents.length / Math.max(total, 1))));
  return interleaved(picked).slice(0, SHOWN);
}

/** At most `count` of a list, evenly spread over it. */
function spread(several, count) {
  if (several.length <= count) return several;
  return Array.from({ length: count }, (_, at) => several[Math.floor(at * several.length / count)]);
}

/** Lists merged so that each is spread evenly over the whole. */
function interleaved(lists) {
  const placed = lists.flatMap((several) => several.map((one, at) => [(at + 0.5) / several.length, one]));
  return placed.sort((a, b) => a[0] - b[0]).map(([, one]) => one);
}
