// The page: follows the state, asks the server, and shows what it answers.

import { addFiles } from "./add.js";
import { api, onKeyNeeded } from "./api.js";
import { byId, el, fillIn, real, say } from "./dom.js";
import * as drop from "./drop.js";
import { marked } from "./explain.js";
import { forget, remember, showFilters, showKinds, where } from "./filters.js";
import { list, merged, search, selection } from "./find.js";
import { append, bones, busy, cards, focusFirst, followKeys, LIKELY, POSSIBLE, show } from "./grid.js";
import * as health from "./health.js";
import { askForKey } from "./key.js";
import { dropPicture, listen, query, showToken, usePicture } from "./query.js";
import { address, go, onChange, start, state } from "./state.js";
import * as view from "./view.js";
import { words } from "./words.js";

const AHEAD = 900; // pixels below the window at which the next hits are fetched
const SLOW = 250; // milliseconds after which grey cards are shown

let collections = [];
let fresh = false; // the collections were read just now
let fields = [];
let found = { calibrated: [], raw: [], full: false }; // of a search
let listed = null; // or documents that were listed: { documents, next }
let asking = null; // the AbortController of the request under way

const here = () => collections.find((one) => one.name === state.c);
const searched = () => query() !== null || Boolean(state.like);
const ranking = () => (state.raw ? "raw" : "calibrated");
const shown = () => (listed ? listed.documents : found[ranking()]);
const context = () => ({ raw: Boolean(state.raw), marks: marked(state.q) });

async function refresh() {
  asking?.abort();
  const mine = asking = new AbortController();
  const late = setTimeout(() => { if (!cards().length) bones(); else busy(true); }, SLOW);
  notice("");
  try {
    const { signal } = mine;
    if (searched()) {
      found = await search(query(), 0, signal);
      listed = null;
    } else if (where()) {
      listed = await list(-1, signal);
    } else {
      listed = { documents: await selection(here().modalities, signal), next: null };
    }
    remember(shown());
    show(shown(), context());
    tell();
  } catch (error) {
    if (error.name === "AbortError") return;
    show([], context());
    count("");
    notice(error.message, refresh);
  } finally {
    clearTimeout(late);
    if (asking === mine) {
      asking = null;
      busy(false);
    }
  }
}

/** Show the next page below; `focus` moves there, as after the button was pressed. */
async function showMore({ focus = false } = {}) {
  if (asking || byId("more").hidden) return;
  const mine = asking = new AbortController();
  const { signal } = mine;
  byId("more").textContent = words.loading;
  try {
    const before = shown().length;
    if (listed) {
      const next = await list(listed.next, signal);
      listed = { documents: [...listed.documents, ...next.documents], next: next.next };
    } else {
      found = merged(found, await search(query(), found.calibrated.length, signal));
    }
    const added = shown().slice(before);
    append(added, context(), { focus });
    remember(added);
    tell();
  } catch (error) {
    if (error.name === "AbortError") return;
    byId("more").hidden = true;
    notice(error.message);
  } finally {
    byId("more").textContent = words.more;
    if (asking === mine) {
      asking = null;
      setTimeout(moreIfNear); // the end may be in sight still
    }
  }
}

function moreIfNear() {
  if (byId("more").getBoundingClientRect().top < innerHeight + AHEAD) showMore();
}

/** Say what is shown: the count above the grid, and the same to screen readers. */
function tell() {
  byId("ranking").hidden = Boolean(listed) || !found.calibrated.length;
  byId("more").hidden = listed ? listed.next === null : !found.full;
  for (const choice of document.getElementsByName("ranking")) choice.checked = choice.value === ranking();
  const text = summary();
  if (text !== byId("count").textContent) say(text);
  count(text);
  const [nothing, adding] = [!shown().length, !here().documents];
  byId("nothing").hidden = !nothing;
  byId("nothing-said").textContent = nothing ? text : "";
  byId("count").classList.toggle("unseen", nothing);
  byId("nothing-add").hidden = !adding;
  byId("nothing-clear").hidden = adding || !where();
}

function summary() {
  const number = shown().length;
  if (!here().documents) return words.empty;
  if (listed) {
    if (!where()) return words.browsing(here().documents, state.c);
    return number ? (listed.next === null ? words.filtered : words.atLeast)(number) : words.nothingFiltered;
  }
  if (!number) return where() ? words.nothingFiltered : words.nothing;
  if (state.raw) return words.hitsRaw(number, found.full);
  const sure = found.calibrated.map((hit) => hit.probability).filter((share) => share !== null);
  if (!sure.length) return words.hits(number, null, 0, found.full);
  const [likely, possible] = [LIKELY, POSSIBLE].map((least) => sure.filter((share) => share >= least).length);
  return words.hits(number, likely, possible - likely, found.full);
}

function count(text) {
  byId("count").textContent = text;
  if (byId("filter-count")) byId("filter-count").textContent = text; // while the filters are open
}

/** Show what went wrong; `again` tries once more. */
function notice(text, again = null) {
  const button = again && el("button", { type: "button", class: "quiet", onclick: () => again() }, words.again);
  byId("notice").replaceChildren(...real([text, button]));
  byId("notice").hidden = !text;
  if (text) byId("nothing").hidden = byId("more").hidden = true;
}

/** Change the ranking: the same cards glide to their places in the other list. */
function rerank() {
  const moved = show(shown(), context(), { glide: true });
  tell();
  say(`${summary()}. ${words.moved(moved, shown().length)}`);
}

async function changed(before) {
  if (!collections.length) return; // they are not known yet; `open` goes on from the state
  if (!here()) state.c = before.c || collections[0].name; // an address that names none, or one that is gone
  const other = before.c !== state.c;
  if (before.q !== state.q && byId("words").value.trim() !== state.q.trim()) byId("words").value = state.q;
  try {
    if (other) await enter();
  } catch (error) {
    show([], context());
    notice(error.message, () => changed(before));
    return;
  }
  if (state.like && !before.like) dropPicture();
  showToken();
  const same = ["q", "kind", "like"].every((name) => before[name] === state[name])
    && JSON.stringify(before.where) === JSON.stringify(state.where) && !other;
  if (!same) {
    showKinds(here()?.modalities ?? {});
    showFilters(fields);
    await refresh();
  } else if (before.raw !== state.raw && !listed) {
    rerank();
  }
  await Promise.all([view.follow(), health.follow()]);
}

/** Read a collection: its counts, and the names that filters may use. */
async function enter() {
  forget();
  const known = fresh ? collections : api.collections();
  fresh = false;
  [collections, { fields }] = await Promise.all([known, api.stats(state.c)]);
  byId("collection").value = state.c;
  document.title = `${state.c} · isthmus`;
}

/** Read the collection again, after files were added. */
async function reload() {
  await enter();
  showKinds(here().modalities);
  showFilters(fields);
  await refresh();
}

async function open() {
  try {
    collections = await api.collections();
    fresh = true;
  } catch (error) {
    show([], context());
    notice(error.message, open);
    return;
  }
  notice("");
  const choice = byId("collection");
  choice.replaceChildren(...collections.map(({ name }) => new Option(name, name)));
  choice.hidden = collections.length < 2;
  for (const id of ["add", "health"]) byId(id).hidden = !collections.length;
  if (!collections.length) {
    show([], context());
    count(words.noCollections);
    return;
  }
  const typed = byId("words").value; // before this script ran
  Object.assign(state, { c: here() ? state.c : collections[0].name, q: state.q || typed });
  history.replaceState(null, "", address());
  await changed({ c: "", q: "", where: [] });
}

fillIn();
start();
onKeyNeeded(askForKey);
onChange(changed);
listen(refresh, focusFirst);
followKeys(() => byId("words").focus());
view.start(shown, (id) => {
  go({ like: id, q: "", doc: "" });
  scrollTo({ top: 0 });
  byId("words").focus();
});
drop.listen({ search: usePicture, add: (files, unread) => addFiles(files, unread, reload) });
byId("grid").addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go({ doc: link.closest("li").dataset.id });
});
byId("ranking").addEventListener("change", (event) => go({ raw: event.target.value === "raw" ? "1" : "" }, { replace: true }));
byId("more").addEventListener("click", () => showMore({ focus: true }));
addEventListener("scroll", moreIfNear, { passive: true });
byId("collection").addEventListener("change", (event) => {
  dropPicture();
  go({ c: event.target.value, kind: "", where: [], like: "", doc: "" });
});
byId("health").addEventListener("click", () => go({ health: "1" }));
for (const id of ["add", "nothing-add"]) byId(id).addEventListener("click", () => byId("files").click());
byId("nothing-clear").addEventListener("click", () => go({ where: [], kind: "" }));
byId("files").addEventListener("change", (event) => {
  const files = [...event.target.files].map((file) => ({ name: file.name, file }));
  event.target.value = "";
  if (files.length) addFiles(files, [], reload);
});
document.querySelector(".brand").addEventListener("click", (event) => {
  event.preventDefault();
  const had = dropPicture();
  go({ q: "", like: "", kind: "", where: [], doc: "", raw: "" });
  if (had) refresh();
});
open();
