// The grid: keeps the cards of the same documents, lets them glide to their new places, and moves with the arrow keys.

import { card, update } from "./cards.js";
import { byId, el } from "./dom.js";

const place = byId("grid");
const [best, rest] = [byId("best"), byId("rest")];
const still = matchMedia("(prefers-reduced-motion: reduce)");
const GLIDE = { duration: 520, easing: "cubic-bezier(.2, .7, .2, 1)" };
const FADE = { duration: 320, easing: "ease-out" };
const BONES = 12;
const FEW = 3; // hits that may be shown larger
const ROW = 8; // pixels by which the tops of a row may differ
export const LIKELY = 0.5; // P(match) that counts as a likely hit
export const POSSIBLE = 0.1; // below it, a hit is less likely than those above
let shown = []; // hits

/** Show hits. With `glide`, cards that were there before move to their new places. Returns how many moved. */
export function show(hits, context, { glide = false } = {}) {
  const before = new Map(cards().map((made, at) => [made.dataset.id, { made, at, box: made.getBoundingClientRect() }]));
  const focused = document.activeElement?.closest?.("#grid li")?.dataset.id;
  const next = hits.map((hit) => {
    const known = glide ? before.get(hit.id) : null;
    if (!known) return card(hit, context);
    update(known.made, hit, context);
    return known.made;
  });
  shown = hits;
  const end = stepOf(hits, context.raw);
  best.replaceChildren(...next.slice(0, end));
  rest.replaceChildren(...next.slice(end));
  arrange();
  busy(false);
  if (!glide) return 0;
  if (focused) next.find((made) => made.dataset.id === focused)?.querySelector("a").focus({ preventScroll: true });
  if (!still.matches) animate(next, before);
  return next.filter((made, at) => before.get(made.dataset.id)?.at !== at).length;
}

/** Where the hits that are less likely begin; behind the last one if nothing tells them apart. */
function stepOf(hits, raw) {
  const end = raw ? -1 : hits.findIndex(({ probability: share }) => typeof share === "number" && share < POSSIBLE);
  return end > 0 ? end : hits.length;
}

/** A likely hit that is ahead of the others is shown large, a few are larger than the others. */
function arrange() {
  const [few, others] = [best.children.length, rest.children.length > 0];
  byId("apart").hidden = rest.hidden = !others;
  const ahead = others && shown[0].probability >= LIKELY;
  best.classList.toggle("one", ahead && few === 1);
  best.classList.toggle("few", ahead && few > 1 && few <= FEW);
}

/** Add hits at the end; with `focus`, the first of them gets it. */
export function append(hits, context, { focus = false } = {}) {
  const made = hits.map((hit) => card(hit, context));
  const end = stepOf([...shown, ...hits], context.raw) - shown.length;
  shown = [...shown, ...hits];
  best.append(...made.slice(0, Math.max(0, end)));
  rest.append(...made.slice(Math.max(0, end)));
  arrange();
  if (focus) made[0]?.querySelector("a").focus({ preventScroll: true });
}

/** FLIP: first and last places are measured, the difference is inverted, then played. */
function animate(next, before) {
  const visible = (box) => box.bottom > -200 && box.top < innerHeight + 200;
  const boxes = next.map((made) => made.getBoundingClientRect()); // all measured before any is moved
  next.forEach((made, at) => {
    const old = before.get(made.dataset.id);
    const box = boxes[at];
    if (!old) {
      if (visible(box)) made.animate([{ opacity: 0, transform: "scale(.94)" }, { opacity: 1, transform: "none" }], FADE);
      return;
    }
    const [x, y, size] = [old.box.left - box.left, old.box.top - box.top, old.box.width / box.width];
    if ((!x && !y && size === 1) || (!visible(box) && !visible(old.box))) return;
    made.classList.add("gliding");
    const run = made.animate([{ transform: `translate(${x}px, ${y}px) scale(${size})` }, { transform: "none" }], GLIDE);
    run.finished.catch(() => {}).then(() => made.classList.remove("gliding"));
  });
}

/** Show grey cards while the first answer is awaited. */
export function bones() {
  best.replaceChildren(...Array.from({ length: BONES }, () => el("li", { class: "bone" })));
  rest.replaceChildren();
  arrange();
  busy(true);
}

export const busy = (value) => place.setAttribute("aria-busy", String(value));
export const cards = () => [...place.querySelectorAll("li[data-id]")];
export const focusFirst = () => cards()[0]?.querySelector("a").focus();

/** Focus the card of a document, where a closed view leaves the focus. */
export const focusOn = (id) => cards().find((made) => made.dataset.id === id)?.querySelector("a").focus();

/** Move with the arrow keys, by rows and columns as they are on the screen; up from the first row calls `leave`. */
export function followKeys(leave) {
  place.addEventListener("keydown", (event) => {
    const all = cards();
    const at = all.indexOf(event.target.closest("li"));
    if (at < 0 || event.target.closest("audio, video") || event.altKey || event.ctrlKey || event.metaKey) return;
    const to = {
      ArrowRight: () => at + 1, ArrowLeft: () => at - 1, ArrowDown: () => beyond(all, at, 1), ArrowUp: () => beyond(all, at, -1),
      Home: () => 0, End: () => all.length - 1,
    }[event.key]?.();
    if (event.key === "Escape" || (event.key === "ArrowUp" && to < 0)) {
      event.preventDefault();
      leave();
    } else if (to !== undefined && all[to]) {
      event.preventDefault();
      const link = all[to].querySelector("a");
      link.focus({ preventScroll: true });
      all[to].scrollIntoView({ block: "nearest", behavior: still.matches ? "auto" : "smooth" });
    }
  });
}

/** The card nearest to the middle of this one in the row below (1) or above (−1), or −1. */
function beyond(all, at, way) {
  const boxes = all.map((made) => made.getBoundingClientRect());
  const middle = ({ left, width }) => left + width / 2;
  const past = boxes.filter((box) => (box.top - boxes[at].top) * way > ROW);
  const row = Math.min(...past.map((box) => box.top * way)) * way;
  const near = past.filter((box) => Math.abs(box.top - row) <= ROW)
    .sort((a, b) => Math.abs(middle(a) - middle(boxes[at])) - Math.abs(middle(b) - middle(boxes[at])));
  return boxes.indexOf(near[0]);
}
