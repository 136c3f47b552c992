// The health view: whether one kind of document crowds out another, which documents are hubs, and whether it drifted.

import { api } from "./api.js";
import { byId, closeButton, closeOnBackdrop, el, icon, sized } from "./dom.js";
import { iconOfModality, nameOfKind } from "./kinds.js";
import { address, go, state } from "./state.js";
import { words } from "./words.js";

const POLL = 500; // milliseconds
const CLEAR = 2; // standard errors of a difference that is not chance
const say = words.state;
const dialog = byId("state");

/** Open or close the view as the state says. */
export async function follow() {
  if (!state.health) {
    if (dialog.open) dialog.close();
    return;
  }
  if (dialog.open) return;
  const name = state.c;
  const body = el("div", { class: "report" }, el("p", { class: "dim" }, words.loading));
  dialog.replaceChildren(
    el("header", {}, el("h2", { id: "state-name", tabindex: "-1" }, say.title(name)), el("span", { class: "gap" }), closeButton(() => dialog.close())),
    body);
  dialog.showModal();
  byId("state-name").focus();
  await load(name, body);
}

async function load(name, body) {
  try {
    const [stats, calibration, last, jobs] = await Promise.all([
      api.stats(name), api.calibration(name), api.diagnosis(name).catch((error) => {
        if (error.status === 404) return null;
        throw error;
      }), api.jobs(name),
    ]);
    if (!body.isConnected) return;
    const running = jobs.find((job) => job.kind === "diagnose" && ["queued", "running"].includes(job.state));
    body.replaceChildren(...report(name, body, last), ...drift(calibration), ...facts(stats));
    if (running) await wait(name, body, running);
  } catch (error) {
    body.replaceChildren(el("p", { class: "bad", role: "alert" }, error.message));
  }
}

function report(name, body, last) {
  const examine = el("button", { type: "button", class: last ? "quiet" : "main", onclick: () => start(name, body) }, last ? say.again : say.examine);
  const foot = el("p", { class: "examine" }, examine, el("span", { class: "dim", id: "examined", role: "status" }, last ? say.made(words.date(last.ended)) : ""));
  if (!last) return [el("p", {}, say.none), foot];
  const found = last.diagnosis;
  return [
    verdict(found),
    section(say.gap, say.gapIs, ...gap(found.gap)),
    found.shares.length ? section(say.shares, say.sharesIs, ...sharesOf(found.shares)) : null,
    found.moves?.questions ? section(say.first, null, el("p", {}, firstHits(found.moves))) : null,
    found.hubs.worst.length ? section(say.hubs, say.hubsIs(found.hubs.expected, found.hubs.questions), hubs(found.hubs)) : null,
    foot,
  ].filter(Boolean);
}

/** What the diagnosis means for who searches; its own words and commands stand behind a click. */
function verdict(found) {
  const [title, said, todo] = say.verdicts[found.level] ?? [say.unknown, found.verdict, ""];
  const list = (name, lines) => (lines.length ? el("details", {}, el("summary", {}, name), el("ul", {}, lines.map((one) => el("li", {}, withCode(one))))) : null);
  return el("section", { class: `verdict ${found.level}` },
    el("h3", { class: "said" }, title), el("p", {}, said || found.verdict),
    todo ? el("p", {}, el("b", {}, say.todo), " ", todo) : null,
    list(say.measured, [found.verdict, ...found.findings]), list(say.commands, found.steps));
}

/** A text in which `commands` stand between backticks. */
const withCode = (text) => text.split("`").map((piece, at) => (at % 2 ? el("code", {}, piece) : piece));

function gap({ raw, calibrated }) {
  const same = words.percent(raw.share) === words.percent(calibrated.share);
  const bars = same ? [bar(say.both, raw.share, "")] : [bar(say.raw, raw.share, "pale"), bar(say.calibrated, calibrated.share, "")];
  return [...bars, bar(say.chance, raw.chance, "faint"), same ? el("p", { class: "dim after-bars" }, say.gapSame) : null];
}

const firstHits = ({ gained, lost, questions, certain }) => say.firstIs(gained, lost, questions, Math.abs(certain) >= CLEAR);

function section(title, about, ...children) {
  return el("section", {}, el("h3", {}, title), about ? el("p", { class: "dim" }, about) : null, ...children);
}

function bar(label, share, look) {
  return el("div", { class: "bar-row" }, el("span", {}, label), sized(el("span", { class: `track ${look}` }), share), el("span", { class: "number" }, words.percent(share)));
}

function sharesOf([first, ...others]) {
  const more = el("details", {}, el("summary", {}, say.otherwise), others.map(shares));
  return [shares(first), others.length ? more : null];
}

function shares(one) {
  const table = el("table", {},
    el("thead", {}, el("tr", {}, el("td", {}), [say.equal, say.raw, say.calibrated].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, Object.keys(one.corpus).map((kind) => el("tr", {},
      el("th", { scope: "row" }, icon(iconOfModality(kind)), nameOfKind(kind)),
      [one.corpus[kind], one.before[kind], one.after[kind]].map((share, at) => el("td", {}, sized(el("span", { class: `cell c${at}` }, words.percent(share)), share)))))));
  return el("div", { class: "shares" }, el("h4", {}, say.asked[one.query_modality] ?? one.query_modality), table);
}

function hubs(found) {
  return el("ol", { class: "hubs" }, found.worst.map((hub) => el("li", {},
    icon(iconOfModality(hub.modality)),
    el("a", { href: address({ doc: hub.id, health: "" }), onclick: (event) => { event.preventDefault(); go({ doc: hub.id, health: "" }); } }, hub.id),
    el("span", { class: "number" }, say.lists(hub.before, hub.after)))));
}

function drift(calibration) {
  const rows = Object.entries(calibration.drift).map(([kind, value]) => bar(nameOfKind(kind), value ?? 1, "pale"));
  return rows.length ? [section(say.drift, say.driftIs, ...rows, el("p", {}, calibration.drifted ? say.drifted : say.steady))] : [];
}

function facts(stats) {
  const bytes = Object.values(stats.bytes).reduce((sum, one) => sum + one, 0);
  const rows = [
    ...Object.entries(stats.documents).map(([kind, count]) => [nameOfKind(kind), count.toLocaleString("en")]),
    [say.encoder, stats.encoder.encoder], [say.calibration, stats.calibration?.spec ?? say.uncalibrated], [say.size, say.mebibytes(bytes)],
  ];
  const skipped = stats.skipped.length
    ? el("details", {}, el("summary", {}, say.skipped(stats.skipped.length)), el("ul", {}, stats.skipped.slice(0, 200).map((one) => el("li", {}, words.skipped(one)))))
    : null;
  return [section(say.collection, null, el("dl", {}, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])), skipped)];
}

async function start(name, body) {
  try {
    await wait(name, body, await api.diagnose(name));
  } catch (error) {
    byId("examined").textContent = error.message;
  }
}

async function wait(name, body, job) {
  let now = job;
  const button = body.querySelector(".examine button");
  button.disabled = true;
  while (["queued", "running"].includes(now.state)) {
    byId("examined").textContent = say.examining(now.done, now.total);
    await new Promise((done) => { setTimeout(done, POLL); });
    if (!body.isConnected) return;
    now = await api.job(name, job.id);
  }
  if (now.state === "done") {
    await load(name, body);
    return;
  }
  button.disabled = false;
  byId("examined").textContent = say.failed + (now.error ?? now.state);
}

closeOnBackdrop(dialog);
dialog.addEventListener("close", () => {
  dialog.replaceChildren();
  if (state.health) go({ health: "" }, { replace: true });
});
