// Filters: the kind of document, and conditions on metadata.

import { byId, closeButton, closeOnBackdrop, el, icon } from "./dom.js";
import { iconOfModality, nameOfKind } from "./kinds.js";
import { go, state } from "./state.js";
import { words } from "./words.js";

const SUGGESTED = 12; // values of a field
const NUMBER = /^-?\d+(\.\d+)?$/;
const dialog = byId("filter");
let seen = new Map(); // field → value → how often

/** The filter of a request, or null. */
export function where() {
  const all = state.where.map(([field, condition, value]) => parsed(field, condition, value));
  if (state.kind) all.push({ modality: state.kind });
  return all.length ? { and: all } : null;
}

function parsed(field, condition, value) {
  const number = NUMBER.test(value) ? Number(value) : null;
  const same = value === "true" ? [value, 1] : value === "false" ? [value, 0] : number === null ? [value] : [value, number];
  if (condition === "not") return { not: { [field]: same } };
  if (condition === "gte" || condition === "lte") return { [field]: { [condition]: number ?? value } };
  if (condition === "exists") return { [field]: { exists: true } };
  return { [field]: same };
}

/** Remember the values of documents that were shown, to suggest them. */
export function remember(documents) {
  for (const { metadata } of documents) {
    for (const [field, value] of Object.entries(metadata)) {
      if (typeof value === "object" && !Array.isArray(value)) continue;
      const counts = seen.get(field) ?? seen.set(field, new Map()).get(field);
      for (const one of [value].flat()) counts.set(String(one), (counts.get(String(one)) ?? 0) + 1);
    }
  }
}

export function forget() {
  seen = new Map();
}

/** The chips of the kinds in a collection. */
export function showKinds(modalities) {
  const names = Object.keys(modalities);
  const chip = (kind, label, shown) => el("button", {
    type: "button", class: "chip", "aria-pressed": String(state.kind === kind), onclick: () => go({ kind }),
  }, ...(shown ? [icon(shown)] : []), label);
  byId("kinds").replaceChildren(...(names.length > 1 ? [
    chip("", words.everything), ...names.map((name) => chip(name, nameOfKind(name), iconOfModality(name))),
  ] : []));
}

/** The chips of the conditions, and the button that adds one. */
export function showFilters(fields) {
  const chips = state.where.map((one, at) => {
    const text = phrase(one);
    const remove = () => go({ where: state.where.filter((_, other) => other !== at) });
    return el("button", { type: "button", class: "chip on", "aria-label": words.removeFilter(text), onclick: remove }, text, icon("close"));
  });
  const open = el("button", { type: "button", class: "chip", "aria-haspopup": "dialog", onclick: () => ask(fields) }, icon("filter"), words.filter);
  byId("filters").replaceChildren(...chips, ...(fields.length ? [open] : []));
}

const phrase = ([field, condition, value]) => `${field} ${words.conditions[condition] ?? condition} ${value}`.trim();

/** Add a condition, once. */
export function addFilter(field, condition, value) {
  const others = state.where.filter((one) => one.join("\0") !== [field, condition, value].join("\0"));
  go({ where: [...others, [field, condition, value]], doc: "" });
}

function ask(fields) {
  const few = (field) => ((seen.get(field)?.size ?? 0) > 1 ? seen.get(field).size : Infinity); // one value divides nothing
  const usable = fields.filter((field) => field !== "modality").sort((a, b) => few(a) - few(b));
  const field = el("select", { id: "filter-field" }, usable.map((name) => el("option", { value: name }, name)));
  const kinds = Object.entries(words.conditions).map(([name, word]) => el("option", { value: name }, word));
  const condition = el("select", { id: "filter-condition" }, kinds);
  const value = el("input", { id: "filter-value", autocomplete: "off" });
  const values = el("div", { class: "values", role: "group", "aria-label": words.valuesSeen });
  const suggest = () => {
    const counts = [...(seen.get(field.value) ?? [])].sort((a, b) => b[1] - a[1]).slice(0, SUGGESTED);
    values.replaceChildren(...counts.map(([one]) => el("button", { type: "button", class: "chip", onclick: () => add(one) }, one)));
  };
  const add = (given) => {
    if (condition.value !== "exists" && !given) return;
    dialog.close();
    addFilter(field.value, condition.value, condition.value === "exists" ? "" : given);
  };
  field.addEventListener("change", suggest);
  condition.addEventListener("change", () => { value.disabled = condition.value === "exists"; });
  const form = el("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); add(value.value.trim()); } },
    el("header", {}, el("h2", { id: "filter-name" }, words.filterTitle), closeButton(() => dialog.close())),
    el("div", { class: "fields" },
      el("label", {}, words.field, field), el("label", {}, words.condition, condition), el("label", {}, words.value, value)),
    values,
    el("button", { class: "main", type: "submit" }, words.apply));
  dialog.replaceChildren(form);
  suggest();
  dialog.showModal();
  field.focus();
}

closeOnBackdrop(dialog);
