// The grid: keeps the cards of the same documents, lets them glide to their new places, and moves with the arrow keys.

import { card, update } from "./cards.js";
import { byId, el } from "./dom.js";

const place = byId("grid");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const GLIDE = { duration: 520, easing: "cubic-bezier(.2, .7, .2, 1)" };
const FADE = { duration: 320, easing: "ease-out" };
const BONES = 12;

/** Show hits. With `glide`, cards that were there before move to their new places. Returns how many moved. */
export function show(hits, context, { glide = false } = {}) {
  const before = new Map(cards().map((made, at) => [made.dataset.id, { made, at, box: made.getBoundingClientRect() }]));
  const focused = document.activeElement?.closest?.(".grid li")?.dataset.id;
  const next = hits.map((hit) => {
    const known = glide ? before.get(hit.id) : null;
    if (!known) return card(hit, context);
    update(known.made, hit, context);
    return known.made;
  });
  place.replaceChildren(...next);
  place.setAttribute("aria-busy", "false");
  if (!glide) return 0;
  if (focused) next.find((made) => made.dataset.id === focused)?.querySelector("a").focus({ preventScroll: true });
  if (!still.matches) animate(next, before);
  return next.filter((made, at) => before.get(made.dataset.id)?.at !== at).length;
}

/** Add hits at the end; with `focus`, the first of them gets it. */
export function append(hits, context, { focus = false } = {}) {
  const made = hits.map((hit) => card(hit, context));
  place.append(...made);
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
    const [x, y] = [old.box.left - box.left, old.box.top - box.top];
    if ((!x && !y) || (!visible(box) && !visible(old.box))) return;
    made.classList.add("gliding");
    const run = made.animate([{ transform: `translate(${x}px, ${y}px)` }, { transform: "none" }], GLIDE);
    run.finished.catch(() => {}).then(() => made.classList.remove("gliding"));
  });
}

/** Show grey cards while the first answer is awaited. */
export function bones() {
  place.replaceChildren(...Array.from({ length: BONES }, () => el("li", { class: "bone" })));
  place.setAttribute("aria-busy", "true");
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
    const columns = columnsOf(all);
    const to = {
      ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: Math.min(at + columns, all.length - 1), ArrowUp: at - columns,
      Home: 0, End: all.length - 1,
    }[event.key];
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

function columnsOf(all) {
  const top = all[0].offsetTop;
  const columns = all.findIndex((made) => made.offsetTop !== top);
  return columns < 0 ? all.length : columns;
}
