// Files that are dragged over the page: a picture can be searched by or added, other files are added.

import { byId, toast } from "./dom.js";
import { state } from "./state.js";
import { words } from "./words.js";

const overlay = byId("drop");
const zones = { search: byId("drop-search"), add: byId("drop-add") };

/** Listen to drags; `search` takes a picture, `add` takes files, and the names of those that cannot be read. */
export function listen({ search, add }) {
  let leaving = 0;
  addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    clearTimeout(leaving);
    leaving = setTimeout(hide, 400); // dragover repeats while files are held above the page
    event.dataTransfer.dropEffect = "copy";
    if (overlay.hidden && !document.querySelector("dialog[open]")) show(event.dataTransfer);
    light(event.target);
  });
  addEventListener("drop", async (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    clearTimeout(leaving);
    const wanted = event.target.closest?.("#drop-search, #box") ? "search" : "add";
    const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
    const entries = items.map((item) => item.webkitGetAsEntry?.() ?? null);
    const plain = items.map((item) => item.getAsFile()); // items are empty after the first await
    hide();
    const image = plain.find((file) => file?.type.startsWith("image/"));
    if (wanted === "search" && image) {
      search(image);
      return;
    }
    if (entries.some((entry) => entry?.isDirectory)) toast(words.reading, { lasting: true });
    const found = (await Promise.all(entries.map((entry, at) => filesOf(entry, plain[at])))).flat();
    const unread = found.filter(({ file }) => !file).map(({ name }) => name);
    if (found.length) add(found.filter(({ file }) => file), unread);
  });
}

function show(transfer) {
  const items = [...transfer.items];
  zones.search.hidden = !(items.length === 1 && items[0].type.startsWith("image/"));
  byId("drop-where").textContent = words.dropAdd(state.c);
  overlay.hidden = false;
}

function hide() {
  overlay.hidden = true;
  light(null);
}

function light(target) {
  for (const zone of Object.values(zones)) zone.classList.toggle("over", Boolean(target?.closest && zone.contains(target)));
}

/** The files of a dropped file or folder, { name, file }; the file is null if it, or its folder, cannot be read. */
async function filesOf(entry, plain) {
  if (!entry?.isDirectory) return plain ? [{ name: plain.name, file: plain }] : [];
  const found = [];
  const folders = [entry];
  while (folders.length) {
    const folder = folders.shift();
    const reader = folder.createReader();
    for (;;) {
      const some = await new Promise((done) => { reader.readEntries(done, () => done(null)); });
      if (!some) found.push({ name: nameOf(folder), file: null });
      if (!some?.length) break;
      for (const one of some) {
        if (one.name.startsWith(".")) continue;
        if (one.isDirectory) folders.push(one);
        else found.push({ name: nameOf(one), file: await new Promise((done) => { one.file(done, () => done(null)); }) });
      }
    }
  }
  return found;
}

/** The name of a file with its folders: several folders may have files of the same name. */
const nameOf = (entry) => entry.fullPath.replace(/^\/+/, "");
