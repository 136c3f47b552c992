// Sounds and videos: a player that begins at the moment that matches, in the document and on a card.

import { key, send } from "./api.js";
import { el, icon } from "./dom.js";
import { words } from "./words.js";

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    firstFrame(target);
  }
}, { rootMargin: "300px" });

/** A player of a part; `span` is the moment that matches, { start, stop } in seconds, or null. */
export function player({ kind, url }, label, span, { play = false } = {}) {
  const made = el(kind === "video" ? "video" : "audio", { controls: true, preload: "metadata", playsinline: "", "aria-label": label });
  made.addEventListener("error", () => made.replaceWith(el("p", { class: "dim" }, words.cannotPlay)), { once: true });
  load(made, url, span?.start ?? 0).then(() => { if (play) made.play().catch(() => {}); });
  return made;
}

/** Set the source. If the server sends parts of files, the browser fetches what it plays; else all of it, once. */
async function load(element, url, second) {
  if (second) element.addEventListener("loadedmetadata", () => { element.currentTime = second; }, { once: true });
  if (!key() && (!second || (await probe(url)).ranges)) {
    element.src = url;
    return;
  }
  try {
    const held = URL.createObjectURL(await (await send(url)).blob()); // <audio> and <video> send no key
    const watch = new MutationObserver(() => {
      if (element.isConnected) return;
      watch.disconnect();
      URL.revokeObjectURL(held);
    });
    watch.observe(document.body, { childList: true, subtree: true });
    element.src = held;
  } catch {
    element.dispatchEvent(new Event("error"));
  }
}

/** Whether the server sends parts of a file, and the tag of its content; only the head of the answer is read. */
export async function probe(url) {
  const stop = new AbortController();
  try {
    const answer = await fetch(url, { headers: { Range: "bytes=0-0" }, credentials: "omit", signal: stop.signal });
    return { ranges: answer.status === 206, tag: answer.ok ? answer.headers.get("ETag") : null };
  } catch {
    return { ranges: false, tag: null };
  } finally {
    stop.abort();
  }
}

/** A button that plays the moment that matches in a player. */
export function momentButton(made, span, moment) {
  const begin = () => {
    made.currentTime = span.start;
    made.play().catch(() => {});
  };
  return el("button", { type: "button", class: "quiet moment", onclick: begin }, icon("play"), words.moment(moment));
}

/** The face of a sound or a video on a card: its frame if it has one, and a button that plays it in place. */
export function playable(part, label, span, moment) {
  const face = el("div", { class: `face playable ${part.kind}` });
  const name = moment ? words.playFrom(label, moment) : words.play(label);
  const start = () => {
    const made = player(part, label, span, { play: true });
    face.classList.add("playing");
    face.replaceChildren(made);
    made.focus();
  };
  if (part.kind === "audio") face.append(icon("wave", "wave"));
  face.append(el("button", { type: "button", class: "play", "aria-label": name, title: name, onclick: start }, icon("play")));
  if (part.kind === "video") {
    Object.assign(face.dataset, { url: part.url, second: span?.start ?? 0 });
    near.observe(face);
  }
  return face;
}

/** Show the frame of a video where it begins, if that does not take the whole file. */
async function firstFrame(face) {
  const { url, second } = face.dataset;
  if (key() || !(await probe(url)).ranges || !face.querySelector(".play")) return;
  const frame = el("video", { class: "frame", muted: true, preload: "metadata", tabindex: "-1", "aria-hidden": "true", src: `${url}#t=${Math.max(second, 0.1)}` });
  frame.addEventListener("loadeddata", () => { if (face.querySelector(".play")) face.prepend(frame); }, { once: true });
  frame.load();
}

/** One sound at a time: what begins to play stops the others. */
document.addEventListener("play", ({ target }) => {
  for (const other of document.querySelectorAll("audio, video")) if (other !== target) other.pause();
}, true);
