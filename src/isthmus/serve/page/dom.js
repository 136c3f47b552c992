// Elements without innerHTML: text is always text.

import { words } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** Make an element. Properties are attributes; `on…` are listeners; children are elements or text. */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...real(children));
  return made;
}

/** Children without those that are null. */
export const real = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined);

/** An icon of the sheet in index.html. */
export function icon(name, look = "icon") {
  const made = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  made.setAttribute("class", look);
  made.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#i-${name}`);
  made.append(use);
  return made;
}

/** A length of a bar, as a custom property: the stylesheet draws it. */
export function sized(element, share) {
  element.style.setProperty("--share", String(Math.max(0, Math.min(1, share))));
  return element;
}

/** Say something to screen readers. */
export function say(text) {
  byId("live").textContent = text;
}

let hiding = 0;

/** Show a short report at the bottom; `lasting` reports stay until the next one, or until they are closed. */
export function toast(children, { lasting = false, closing = false } = {}) {
  const place = byId("toast");
  const close = closing ? closeButton(() => { place.hidden = true; }) : null;
  clearTimeout(hiding);
  place.replaceChildren(...real([close, children]));
  place.hidden = false;
  if (!lasting) hiding = setTimeout(() => { place.hidden = true; }, 9000);
}

export function closeButton(close) {
  return el("button", { class: "round", type: "button", "aria-label": words.close, onclick: close }, icon("close"));
}

/** Close a dialog when its backdrop is clicked. */
export function closeOnBackdrop(dialog) {
  dialog.addEventListener("click", (event) => {
    if (event.target !== dialog) return;
    const box = dialog.getBoundingClientRect();
    const inside = event.clientX >= box.left && event.clientX <= box.right
      && event.clientY >= box.top && event.clientY <= box.bottom;
    if (!inside) dialog.close();
  });
}

/** Fill in the words of index.html. */
export function fillIn() {
  for (const place of document.querySelectorAll("[data-word]")) place.textContent = words[place.dataset.word];
  for (const place of document.querySelectorAll("[data-label]")) {
    place.setAttribute("aria-label", words[place.dataset.label]);
    if (place.tagName === "BUTTON") place.title = words[place.dataset.label];
  }
  for (const place of document.querySelectorAll("[data-placeholder]")) {
    place.placeholder = words[place.dataset.placeholder];
  }
  byId("foot").textContent = words.foot;
}
