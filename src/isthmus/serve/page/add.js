// Add files: in small uploads one after another, so that progress can be shown and no upload takes too long.

import { api } from "./api.js";
import { el, say, toast } from "./dom.js";
import { state } from "./state.js";
import { words } from "./words.js";

const TOGETHER = 12; // files of one upload
const BYTES = 24 * 2 ** 20;
const LISTED = 6; // skipped files that are named

/** Upload files to the collection, and report what became of them. */
export async function addFiles(files, done) {
  const report = { added: 0, updated: 0, unchanged: 0, skipped: [] };
  let sent = 0;
  for (const group of groups(files)) {
    toast([el("progress", { max: files.length, value: sent }), words.adding(sent, files.length)], { lasting: true });
    const form = new FormData();
    for (const file of group) form.append("files", file, file.name);
    try {
      const one = await api.upload(state.c, form);
      for (const name of ["added", "updated", "unchanged"]) report[name] += one[name];
      report.skipped.push(...one.skipped);
    } catch (error) {
      toast(el("p", { class: "bad" }, error.message));
      say(error.message);
      if (sent) await done();
      return;
    }
    sent += group.length;
  }
  const said = words.added(report);
  const list = report.skipped.slice(0, LISTED).map((one) => el("li", {}, words.skipped(one)));
  const skipped = list.length > 0; // a list takes longer to read than a short report is shown
  toast([el("p", {}, said), skipped ? el("ul", {}, list) : null], { lasting: skipped, closing: skipped });
  say(said);
  await done();
}

/** Files in groups; those that differ only in the ending stay together, since a text beside a picture describes it. */
function groups(files) {
  const stem = (file) => file.name.replace(/\.[^.]*$/, "").toLowerCase();
  const sorted = [...files].sort((a, b) => (stem(a) < stem(b) ? -1 : 1));
  const found = [];
  let bytes = 0;
  for (const file of sorted) {
    const last = found.at(-1);
    const full = !last || ((last.length >= TOGETHER || bytes + file.size > BYTES) && stem(last.at(-1)) !== stem(file));
    if (full) {
      found.push([file]);
      bytes = file.size;
    } else {
      last.push(file);
      bytes += file.size;
    }
  }
  return found;
}
