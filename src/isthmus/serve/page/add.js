// Add files: in small uploads one after another, so that progress can be shown and no upload takes too long.

import { api } from "./api.js";
import { el, say, toast } from "./dom.js";
import { state } from "./state.js";
import { words } from "./words.js";

const TOGETHER = 12; // files of one upload
const BYTES = 24 * 2 ** 20;
const LISTED = 6; // skipped files that are named

/** Upload files, { name, file }, to the collection, and report what became of them; `unread` are names of others. */
export async function addFiles(files, unread, done) {
  const collection = state.c; // another one may be chosen meanwhile
  const report = { added: 0, updated: 0, unchanged: 0, skipped: unread.map((id) => ({ id, why: words.unread })) };
  let sent = 0;
  for (const group of groups(files)) {
    toast([el("progress", { max: files.length, value: sent }), words.adding(sent, files.length)], { lasting: true });
    const form = new FormData();
    for (const { name, file } of group) form.append("files", file, name);
    try {
      const one = await api.upload(collection, form);
      for (const count of ["added", "updated", "unchanged"]) report[count] += one[count];
      report.skipped.push(...one.skipped);
    } catch (error) {
      const before = sent ? words.addedBefore(words.added(report)) : "";
      toast([el("p", { class: "bad" }, error.message), before && el("p", {}, before)], { lasting: true, closing: true });
      say(`${error.message} ${before}`);
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
  const stem = ({ name }) => name.replace(/\.[^./]*$/, "").toLowerCase();
  const sorted = [...files].sort((a, b) => (stem(a) < stem(b) ? -1 : 1));
  const found = [];
  let bytes = 0;
  for (const file of sorted) {
    const last = found.at(-1);
    const { size } = file.file;
    const full = !last || ((last.length >= TOGETHER || bytes + size > BYTES) && stem(last.at(-1)) !== stem(file));
    if (full) {
      found.push([file]);
      bytes = size;
    } else {
      last.push(file);
      bytes += size;
    }
  }
  return found;
}
