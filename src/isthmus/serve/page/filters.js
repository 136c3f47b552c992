// Filters: the kind of document, and conditions on metadata; the dialog shows the values that there are, with their counts.

import { api } from "./api.js";
import { byId, closeButton, closeOnBackdrop, el, icon } from "./dom.js";
import { iconOfModality, nameOfKind } from "./kinds.js";
import { go, state } from "./state.js";
import { words } from "./words.js";

const FEW = 12; // values of a field that are shown
const APART = ["modality", "path", "ocr_parts"]; // has chips of its own; is not told whole; is for programs
const NUMBER = /^-?\d+(\.\d+)?$/;
const DAY = /^\d{4}-\d\d-\d\d$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d/;
const LAST = "~"; // sorts behind every time of a day
const dialog = byId("filter");
const truths = new Set(); // fields that are true or false in documents that were shown; the server counts 1 and 0
let counted = null; // a promise of the values of this collection

/** The filter of a request, or null. Several values of one field are alternatives. */
export function where() {
  const same = new Map();
  const all = [];
  for (const [field, condition, value] of state.where) {
    if (condition === "is") same.set(field, [...(same.get(field) ?? []), ...equal(value)]);
    else all.push(parsed(field, condition, value));
  }
  for (const [field, values] of same) all.push({ [field]: values });
  if (state.kind) all.push({ modality: state.kind });
  return all.length ? { and: all } : null;
}

/** A value as the metadata may have it: "5" is a text and a number. */
function equal(value) {
  if (value === "true" || value === "false") return [value, value === "true" ? 1 : 0];
  return NUMBER.test(value) ? [value, Number(value)] : [value];
}

function parsed(field, condition, value) {
  if (condition === "not") return { not: { [field]: equal(value) } };
  if (condition === "exists") return { [field]: { exists: true } };
  const end = condition === "lte" && DAY.test(value) ? value + LAST : value;
  return { [field]: { [condition]: NUMBER.test(value) ? Number(value) : end } };
}

/** Look at documents that are shown: which fields are true or false. */
export function remember(documents) {
  for (const { metadata } of documents) {
    for (const [field, value] of Object.entries(metadata)) if (typeof value === "boolean") truths.add(field);
  }
}

/** Forget the values, as another collection has others, and so has this one after files were added. */
export function forget() {
  truths.clear();
  counted = null;
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

/** The chips of the conditions, and the button that opens the filters. */
export function showFilters(fields) {
  const chips = state.where.map((one) => {
    const text = phrase(one);
    return el("button", { type: "button", class: "chip on", "aria-label": words.removeFilter(text), onclick: () => remove(...one) }, text, icon("close"));
  });
  const open = el("button", { type: "button", class: "chip", "aria-haspopup": "dialog", onclick: () => ask(fields) }, icon("filter"), words.filter);
  const some = fields.some((name) => name !== "id" && name !== "modality");
  byId("filters").replaceChildren(...chips, ...(some ? [open] : []));
}

const shownAs = (value) => (TIME.test(value) ? words.date(value) : value);
const phrase = ([field, condition, value]) => `${field} ${words.conditions[condition] ?? condition} ${shownAs(value)}`.trim();
const isOn = (...given) => state.where.some((one) => one.join("\0") === given.join("\0"));

/** Add a condition, once. */
export function addFilter(...given) {
  if (!isOn(...given)) go({ where: [...state.where, given], doc: "" });
  else go({ doc: "" });
}

const remove = (...given) => go({ where: state.where.filter((one) => one.join("\0") !== given.join("\0")) });

/** Put a condition in place of another on the same field, or none if the value is empty. */
function change(field, condition, value) {
  const others = state.where.filter((one) => one[0] !== field || one[1] !== condition);
  go({ where: value ? [...others, [field, condition, value]] : others });
}

async function ask(fields) {
  const place = el("div", { class: "facets" }, el("p", { class: "dim" }, words.loading));
  const clear = el("button", { type: "button", class: "quiet", onclick: () => { go({ where: [] }); dialog.close(); } }, words.clearFilters);
  dialog.replaceChildren(
    el("header", {}, el("h2", { id: "filter-name", tabindex: "-1" }, words.filterTitle), closeButton(() => dialog.close())),
    place,
    el("footer", {}, el("span", { class: "dim", id: "filter-count", role: "status" }), state.where.length ? clear : null,
      el("button", { type: "button", class: "main", onclick: () => dialog.close() }, words.done)));
  dialog.showModal();
  byId("filter-name").focus();
  counted ??= api.values(state.c);
  let found;
  try {
    found = await counted;
  } catch (error) {
    counted = null;
    place.replaceChildren(el("p", { class: "bad", role: "alert" }, error.message));
    return;
  }
  const shown = found.filter(({ name }) => !APART.includes(name)).map(facet).filter(Boolean).sort((a, b) => a.order - b.order);
  const other = otherCondition(fields.filter((name) => name !== "modality"), found, !shown.length);
  place.replaceChildren(...shown.map(({ made }) => made), other);
}

/** A field with its values or its range; nothing for one that tells every document apart, or none. */
function facet({ name, values, more, numbers, dates }) {
  const range = numbers && !truths.has(name) && (more || values.length > FEW) ? numbers : null;
  if (range && range[0] !== range[1]) return { order: 1, made: rangeOf(name, range, "number") };
  if (dates && dates[0].slice(0, 10) !== dates[1].slice(0, 10)) return { order: 2, made: rangeOf(name, dates.map((day) => day.slice(0, 10)), "date") };
  const frequent = more || values.length > FEW ? values.filter(({ documents }) => documents > 1) : values;
  if (frequent.length < 2 || frequent[0].documents < 2) return null;
  return { order: more ? 3 : 0, made: choices(name, frequent.slice(0, FEW)) };
}

function group(name, ...children) {
  return el("fieldset", {}, el("legend", {}, name), el("div", { class: "values" }, children));
}

function choices(name, values) {
  return group(name, values.map(({ value, documents }) => {
    const shown = truths.has(name) ? words.truth[value] ?? String(value) : String(value);
    const chip = el("button", {
      type: "button", class: "chip", "aria-pressed": String(isOn(name, "is", shown)),
    }, shownAs(shown), " ", el("span", { class: "dim" }, words.count(documents)), el("span", { class: "unseen" }, ` ${words.counted(documents)}`));
    chip.addEventListener("click", () => {
      const on = isOn(name, "is", shown);
      chip.setAttribute("aria-pressed", String(!on));
      if (on) remove(name, "is", shown);
      else go({ where: [...state.where, [name, "is", shown]] });
    });
    return chip;
  }));
}

function rangeOf(name, [low, high], type) {
  const input = (label, condition, end) => {
    const now = state.where.find((one) => one[0] === name && one[1] === condition)?.[2] ?? "";
    const made = el("input", { type, "aria-label": label, placeholder: end, min: low, max: high, step: "any", value: now });
    made.addEventListener("change", () => change(name, condition, made.value));
    return made;
  };
  return group(name, input(words.from(name), "gte", low), el("span", { class: "dim" }, words.between), input(words.to(name), "lte", high));
}

/** Any field with any condition; the values of the field are suggested while one types. */
function otherCondition(fields, found, open) {
  const field = el("select", { id: "filter-field" }, fields.map((name) => el("option", { value: name }, name)));
  const kinds = Object.entries(words.conditions).map(([name, word]) => el("option", { value: name }, word));
  const condition = el("select", { id: "filter-condition" }, kinds);
  const value = el("input", { id: "filter-value", autocomplete: "off", list: "filter-values" });
  const list = el("datalist", { id: "filter-values" });
  const suggest = () => {
    const values = found.find(({ name }) => name === field.value)?.values ?? [];
    list.replaceChildren(...values.map((one) => el("option", { value: String(one.value) })));
  };
  const add = (event) => {
    event.preventDefault();
    const given = value.value.trim();
    if (condition.value !== "exists" && !given) {
      value.focus();
      return;
    }
    dialog.close();
    addFilter(field.value, condition.value, condition.value === "exists" ? "" : given);
  };
  field.addEventListener("change", suggest);
  condition.addEventListener("change", () => { value.disabled = condition.value === "exists"; });
  suggest();
  return el("details", { open }, el("summary", {}, words.otherCondition), el("form", { onsubmit: add },
    el("div", { class: "fields" },
      el("label", {}, words.field, field), el("label", {}, words.condition, condition), el("label", {}, words.value, value)),
    list,
    el("button", { class: "quiet", type: "submit" }, words.apply)));
}

closeOnBackdrop(dialog);
