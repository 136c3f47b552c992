// The search box: words, a picture that was chosen, pasted or dropped, or both; or a document to search by.

import { byId, el, icon, toast } from "./dom.js";
import { go, state } from "./state.js";
import { words } from "./words.js";

const PAUSE = 320; // milliseconds after which typed words are searched
const AS_IS = 1_500_000; // bytes of a picture that is sent as it is; larger ones are made smaller here
const SIDE = 1600; // pixels of the longer side
const input = byId("words");
let picture = null; // { url: data URL to send, shown: object URL }
let changed = () => {};

/** The query of a search request, or null if there is none. */
export function query() {
  const text = state.q.trim();
  if (picture && text) return { text, image: picture.url };
  if (picture) return { image: picture.url };
  return text || null;
}

/** Search by a picture from now on. */
export async function usePicture(file) {
  try {
    const url = await asDataUrl(file);
    free();
    picture = { url, shown: URL.createObjectURL(file) };
  } catch {
    toast(words.notPicture);
    return;
  }
  go({ like: "", doc: "" }, { replace: true });
  showToken();
  changed();
  input.focus();
}

/** Forget the picture, if there is one. */
export function dropPicture() {
  const had = picture !== null;
  free();
  showToken();
  return had;
}

function free() {
  if (picture) URL.revokeObjectURL(picture.shown);
  picture = null;
}

/** Show the picture or the document that is searched by, inside the box. */
export function showToken(name = state.like) {
  const place = byId("token");
  const like = !picture && name;
  place.hidden = !picture && !like;
  input.placeholder = picture ? words.searchHintPicture : words.searchHint;
  if (place.hidden) {
    place.replaceChildren();
    return;
  }
  const label = picture ? words.removePicture : words.removeLike;
  const remove = el("button", { type: "button", class: "remove", "aria-label": label, title: label, onclick: removeToken }, icon("close"));
  const shown = picture
    ? el("img", { src: picture.shown, alt: words.yourPicture })
    : el("span", {}, words.like(name.split("/").pop()));
  place.replaceChildren(shown, remove);
}

function removeToken() {
  const had = dropPicture();
  go({ like: "" });
  if (had) changed();
  input.focus();
}

async function asDataUrl(file) {
  const drawn = await createImageBitmap(file);
  try {
    if (file.size <= AS_IS) return await read(file);
    const scale = Math.min(1, SIDE / Math.max(drawn.width, drawn.height));
    const canvas = el("canvas", { width: Math.round(drawn.width * scale), height: Math.round(drawn.height * scale) });
    canvas.getContext("2d").drawImage(drawn, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/jpeg", 0.9);
  } finally {
    drawn.close();
  }
}

function read(file) {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => done(reader.result));
    reader.addEventListener("error", () => fail(reader.error));
    reader.readAsDataURL(file);
  });
}

/** Listen to the box; `onChanged` is called when a picture changes, words change the state. */
export function listen(onChanged, down) {
  let waiting = 0;
  changed = onChanged;
  const ask = (options) => {
    clearTimeout(waiting);
    const like = input.value.trim() ? "" : state.like;
    if (input.value !== state.q || like !== state.like) go({ q: input.value, like, doc: "" }, options);
  };
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => ask({ replace: Boolean(state.q) }), PAUSE);
  });
  byId("box").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") {
      event.preventDefault();
      down();
    }
    if (event.key === "Escape" && !input.value && (picture || state.like)) removeToken();
    if (event.key === "Backspace" && !input.value && (picture || state.like)) removeToken();
  });
  byId("pick").addEventListener("click", () => byId("picture").click());
  byId("picture").addEventListener("change", (event) => {
    if (event.target.files[0]) usePicture(event.target.files[0]);
    event.target.value = "";
  });
  addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find((one) => one.type.startsWith("image/"));
    if (!file || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    usePicture(file);
  });
  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, dialog");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}
