// Every English word of the page. A translation is another file like this one.

const many = (count, one, several) => `${count.toLocaleString("en")} ${count === 1 ? one : several}`;
const percent = (share) => `${Math.round(share * 100)}%`;
const chance = (share) => { // never certain
  if (share < 0.005) return "<1%";
  return share > 0.995 ? ">99%" : percent(share);
};
const ordinal = (n) => {
  const ends = { one: "st", two: "nd", few: "rd", other: "th" };
  return `${n}${ends[new Intl.PluralRules("en", { type: "ordinal" }).select(n)]}`;
};

export const words = {
  percent,
  chance,
  common: ["and", "are", "for", "from", "has", "have", "that", "the", "this", "was", "with", "you", "your"], // not marked in texts
  home: "isthmus, start page",
  searchLabel: "Search with words, a picture, or both",
  searchHint: "Search, or paste a picture",
  searchHintPicture: "Add words to the picture",
  byPicture: "Search by a picture",
  removePicture: "Remove the picture",
  yourPicture: "Your picture",
  like: (name) => `Like ${name}`,
  removeLike: "Stop searching by this document",
  collection: "Collection",
  add: "Add",
  addFiles: "Add files to the collection",
  health: "Health",
  healthOf: "Health of the collection",
  kinds: "Kinds of documents",
  everything: "Everything",
  kind: {
    text: "Text", image: "Picture", "image+text": "Picture with text", page: "Page", audio: "Sound", video: "Video",
    "audio+video": "Video",
  },
  kindsOf: {
    text: "Texts", image: "Pictures", "image+text": "Pictures with text", audio: "Sounds", video: "Videos",
    "audio+video": "Videos",
  },
  pageOf: (page, pages) => (pages ? `Page ${page} of ${pages}` : `Page ${page}`),
  ranking: "Ranking",
  calibrated: "Calibrated",
  raw: "Raw cosine",
  more: "Show more",
  foot: "/ search · arrow keys move · Enter opens · Esc closes",
  browsing: (count, name) => `${many(count, "document", "documents")} in ${name}`,
  filtered: (count) => many(count, "document passes the filters", "documents pass the filters"),
  atLeast: (count) => `The first ${many(count, "document that passes", "documents that pass")} the filters`,
  hits: (count, likely, more) => {
    if (likely === null) return `${more ? "The first " : ""}${many(count, "hit", "hits")}`;
    if (likely === 0) return "No likely match. These documents are the nearest.";
    return `${likely === count && more ? "At least " : ""}${many(likely, "likely match", "likely matches")}, the nearest first`;
  },
  hitsRaw: (count, more) => `${more ? "The first " : ""}${many(count, "hit", "hits")} by raw cosine`,
  unlikely: "Nothing matches well. These documents are the nearest.",
  nothing: "Nothing found.",
  nothingFiltered: "Nothing passes the filters.",
  moved: (count, of) => (count ? `${count} of ${of} moved.` : "Nothing moved."),
  empty: "This collection is empty. Choose files, or drop them anywhere on this page.",
  addFilesShort: "Add files",
  again: "Try again",
  noCollections: "There is no collection here yet. Make one with: isthmus index YOUR_FOLDER --into things.isthmus",
  match: "match",
  matchLong: (share) => `Probability that this is a match: ${chance(share)}`,
  cosine: "cosine",
  up: (places) => many(places, "place", "places"),
  down: (places) => many(places, "place", "places"),
  upLong: (before) => `Up from place ${before} by raw cosine`,
  downLong: (before) => `Down from place ${before} by raw cosine`,
  beyond: "Up from beyond place 300 by raw cosine",
  same: "The same picture as yours, or nearly",
  duplicates: (count) => `and ${many(count, "near-duplicate", "near-duplicates")}`,
  untitled: "Untitled",
  close: "Close",
  previous: "Previous hit",
  next: "Next hit",
  original: "Open the original",
  moreLike: "More like this",
  neighbours: "Neighbours",
  noNeighbours: "There are no other documents.",
  noNeighboursOfKind: "This collection cannot be searched by documents of this kind.",
  loading: "Loading …",
  why: "Why it is here",
  about: "About",
  id: "id",
  onlyThese: (name, value) => `Show only documents with ${name} ${value}`,
  explain: {
    place: (rank, before) => {
      if (before === undefined) return `It is ${ordinal(rank)}.`;
      if (before === null) return `It is ${ordinal(rank)}; by raw cosine it would be beyond the 300th place.`;
      if (before === rank) return `It is ${ordinal(rank)}, with and without calibration.`;
      return `It is ${ordinal(rank)}; by raw cosine it would be ${ordinal(before)}.`;
    },
    similarity: (value) => `Its similarity to the query (cosine) is ${value.toFixed(3)}.`,
    parts: (list) => `By part: ${list}.`,
    part: (name, value) => `${name} ${value.toFixed(3)}`,
    hub: (bias) => `${bias.toFixed(3)} was taken off, because it is also near many other queries.`,
    shift: (shift) => `${shift > 0 ? "+" : "−"}${Math.abs(shift).toFixed(3)} corrects for where its kind lies as a whole.`,
    scale: (score) => `Put on one scale with the other kinds of documents, its score is ${score.toFixed(2)}.`,
    words: (value) => `Words that it shares with the query added ${value.toFixed(2)}.`,
    raised: "It has the picture of the query, or nearly the same, so it was raised to the top.",
    probability: (share) => `Judging by similar searches, it is a match with a probability of ${chance(share)}.`,
    rawOnly: "It is ranked by raw cosine alone, with no correction for its kind or for being near everything.",
    passage: "The passage that matches best is marked in the text.",
  },
  wholeText: (characters) => `Show the whole text (${characters.toLocaleString("en")} characters)`,
  moment: (span) => `Best match at ${span}`,
  play: (name) => `Play ${name}`,
  playFrom: (name, span) => `Play ${name} at ${span}`,
  cannotPlay: "This browser cannot play this file.",
  map: {
    show: "Show what matched",
    making: "Looking at every word and patch …",
    none: "Neither its words nor its picture can be taken apart.",
    flat: "No single patch of the picture matters: without any one of them, the similarity stays the same.",
    flatWords: "No single word matters.",
    share: (share) => `${share < 0 ? "−" : "+"}${Math.abs(share).toFixed(4)}`,
    strongest: (list) => `Its strongest words: ${list.map(({ word, share }) => `${word} ${words.map.share(share)}`).join(", ")}.`,
    hottest: (down, across, share) => {
      const where = [["top", "", "bottom"][down], ["left", "", "right"][across]].filter(Boolean).join(" ");
      return `Red counts for the match, blue against it. The strongest patch is ${where ? `at the ${where}` : "in the middle"}: ${words.map.share(share)}.`;
    },
    asked: "Your words, as they met it:",
  },
  filter: "Filter",
  filterTitle: "Filters",
  field: "Field",
  condition: "Condition",
  value: "Value",
  otherCondition: "Another condition",
  from: (name) => `${name}, from`,
  to: (name) => `${name}, to`,
  between: "to",
  count: (count) => count.toLocaleString("en"),
  counted: (count) => (count === 1 ? "document" : "documents"),
  truth: { 0: "false", 1: "true" },
  clearFilters: "Clear filters",
  done: "Done",
  conditions: { is: "is", not: "is not", gte: "is at least", lte: "is at most", exists: "exists" },
  apply: "Add filter",
  removeFilter: (text) => `Remove the filter ${text}`,
  dropSearch: "Search by this picture",
  dropAdd: (name) => `Add to ${name}`,
  reading: "Reading files …",
  adding: (done, all) => `Adding ${done} of ${many(all, "file", "files")} …`,
  added: (report) => {
    const said = [];
    if (report.added) said.push(`${report.added} added`);
    if (report.updated) said.push(`${report.updated} replaced`);
    if (report.unchanged) said.push(`${report.unchanged} were there already`);
    if (report.skipped.length) said.push(`${report.skipped.length} skipped`);
    return `${said.join(", ") || "No files"}.`;
  },
  skipped: (one) => `${one.id}: ${one.why}`,
  notPicture: "That is not a picture that can be read. Use a JPEG, PNG, WebP or GIF file.",
  state: {
    title: (name) => `Health of ${name}`,
    none: "This collection has not been examined yet. An examination asks reference queries and measures whether one kind of document crowds out another.",
    examine: "Examine",
    again: "Examine again",
    examining: (done, total) => (total ? `Examining … ${percent(done / total)}` : "Examining …"),
    failed: "The examination failed: ",
    made: (when) => `Examined ${when}`,
    levels: {
      fair: "Fair", corrected: "Corrected by calibration", unfair: "Unfair", unsure: "Not certain", unknown: "Not known",
    },
    todo: "What to do",
    gap: "Gap",
    gapIs: "How much of the differences between documents their kind alone explains. Less is better.",
    raw: "raw cosine",
    calibrated: "calibrated",
    chance: "by chance",
    equal: "equal chance",
    shares: "Shares of the first ten",
    sharesIs: "Which kinds of documents stand among the first ten hits.",
    asked: { text: "Asked with words", image: "Asked with a picture", "image+text": "Asked with both" },
    hubs: "Hubs",
    hubsIs: (expected, questions) => `Documents that are found again and again. With equal chances, each would be in ${Math.round(expected)} of ${questions.toLocaleString("en")} lists.`,
    lists: (before, after) => `${before} → ${after} lists`,
    drift: "Drift",
    driftIs: "How far the documents have moved away from those that the calibration was fitted on. 0: not at all.",
    drifted: "They have drifted: a new calibration pays.",
    steady: "The calibration still fits.",
    collection: "Collection",
    encoder: "encoder",
    calibration: "calibration",
    uncalibrated: "none",
    size: "on disk",
    skipped: (count) => many(count, "input was skipped", "inputs were skipped"),
    mebibytes: (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`,
  },
  key: {
    title: "This server asks for a key",
    label: "API key",
    hint: "It is kept until you close this tab.",
    wrong: "The server does not know this key.",
    use: "Use key",
  },
  offline: "The server does not answer. Is it still running?",
  failed: (status) => `The server answered ${status}.`,
};
