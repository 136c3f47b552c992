// Thumbnails: lazy, in the size that is needed. With a key they are fetched, since <img> sends no key.

import { key, send } from "./api.js";
import { el } from "./dom.js";

const LARGE = 1600; // pixels of the longer side
const LONG = 2.2; // a side more than so many times the other
const WIDTHS = [320, 640, 960, 1280];
const SIZES = "auto, (max-width: 620px) 50vw, (max-width: 1100px) 33vw, 320px";
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    fetchInto(entry.target, entry.target.dataset.from);
  }
}, { rootMargin: "400px" });

const small = (url, size) => `${url}?size=${size}`;

/** A small picture of a part. */
export function thumbnail(url, alt = "") {
  const made = el("img", { alt, width: 4, height: 3, decoding: "async" });
  made.addEventListener("load", () => {
    const shape = made.naturalHeight / made.naturalWidth;
    made.classList.toggle("tall", shape > 1.2);
    made.classList.toggle("square", shape > 0.8 && shape <= 1.2);
    made.classList.add("loaded");
    const long = Math.max(made.naturalWidth, made.naturalHeight) > LONG * Math.min(made.naturalWidth, made.naturalHeight);
    if (long && made.srcset) { // its size is that of the longer side, and too small for the other
      made.removeAttribute("srcset");
      made.src = small(url, LARGE);
    }
  });
  made.addEventListener("error", () => made.classList.add("broken"));
  if (key()) {
    made.dataset.from = small(url, devicePixelRatio > 1.5 ? WIDTHS[1] : WIDTHS[0]);
    seen.observe(made);
    return made;
  }
  made.loading = "lazy";
  made.sizes = SIZES;
  made.srcset = WIDTHS.map((width) => `${small(url, width)} ${width}w`).join(", ");
  made.src = small(url, WIDTHS[0]);
  return made;
}

/** A large picture of a part, in a frame that a layer can lie over. */
export function picture(url, alt, number) {
  const made = el("img", { alt, class: "large" });
  const stack = el("div", { class: "stack", "data-part": number }, made);
  made.addEventListener("load", () => {
    stack.style.setProperty("--w", made.naturalWidth);
    stack.style.setProperty("--h", made.naturalHeight);
  });
  const place = small(url, LARGE);
  if (key()) fetchInto(made, place);
  else made.src = place;
  return el("div", { class: "frame" }, stack);
}

async function fetchInto(element, place) {
  try {
    const url = URL.createObjectURL(await (await send(place)).blob());
    const done = () => URL.revokeObjectURL(url);
    element.addEventListener("load", done, { once: true });
    element.addEventListener("error", done, { once: true });
    element.src = url;
  } catch {
    element.classList.add("broken");
  }
}
