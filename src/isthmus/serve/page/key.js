// The prompt for an API key.

import { byId, el } from "./dom.js";
import { words } from "./words.js";

const dialog = byId("key");

/** Ask for a key; returns it, or null if the person closes the prompt. */
export function askForKey(wrong) {
  return new Promise((done) => {
    const input = el("input", { id: "key-value", type: "password", autocomplete: "off", required: true, "aria-describedby": "key-hint" });
    const form = el("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); dialog.close(input.value.trim()); } },
      el("h2", { id: "key-name" }, words.key.title),
      wrong ? el("p", { class: "bad", role: "alert" }, words.key.wrong) : null,
      el("label", {}, words.key.label, input),
      el("p", { class: "dim", id: "key-hint" }, words.key.hint),
      el("button", { class: "main", type: "submit" }, words.key.use));
    dialog.replaceChildren(form);
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      dialog.replaceChildren();
      done(dialog.returnValue || null);
    }, { once: true });
    dialog.showModal();
  });
}
