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
  common: [ // neither marked nor coloured
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "have", "i", "in", "is", "it", "its", "my", "of", "on",
    "or", "that", "the", "their", "this", "to", "was", "were", "with", "you", "your",
  ],
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
  raw: "Raw",
  more: "Show more",
  foot: "/ search · arrow keys move · Enter opens · Esc closes",
  browsing: (count, name) => `${many(count, "document", "documents")} in ${name}`,
  filtered: (count) => many(count, "document passes the filters", "documents pass the filters"),
  atLeast: (count) => `The first ${many(count, "document that passes", "documents that pass")} the filters`,
  hits: (count, likely, possible, more) => {
    if (likely === null) return `${more ? "The first " : ""}${many(count, "hit", "hits")}`;
    if (!likely && !possible) return "Nothing matches well. These documents are the nearest.";
    if (!likely) return `No likely match, ${possible} possible`;
    const said = `${likely === count && more ? "At least " : ""}${many(likely, "likely match", "likely matches")}`;
    return possible ? `${said}, ${possible} possible` : said;
  },
  lessLikely: "Less likely",
  hitsRaw: (count, more) => `${more ? "The first " : ""}${many(count, "hit", "hits")} by raw cosine`,
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
  details: "Details of the score",
  about: "About",
  id: "id",
  file: "file",
  size: "size",
  modified: "changed",
  bytes: (count) => {
    const unit = Math.min(3, Math.floor(Math.log(Math.max(count, 1)) / Math.log(1000)));
    const value = count / 1000 ** unit;
    return `${value.toFixed(unit && value < 9.95 ? 1 : 0)} ${["bytes", "kB", "MB", "GB"][unit]}`;
  },
  date: (text) => new Date(text).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" }),
  onlyThese: (name, value) => `Show only documents with ${name} ${value}`,
  explain: { // in plain words; the numbers stand under the details
    probability: (share) => {
      if (share > 0.95) return "Nearly every hit that scores like this is a match.";
      if (share < 0.05) return "Hardly any hit that scores like this is a match.";
      return `About ${Math.round(share * 10)} of 10 hits that score like this are matches.`;
    },
    place: (rank, before) => {
      if (before === undefined) return `${ordinal(rank)} of the hits.`;
      if (before === null) return `${ordinal(rank)} of the hits. Without calibration it would be beyond the 300th place.`;
      if (before === rank) return `${ordinal(rank)} of the hits, with and without calibration.`;
      return `${ordinal(rank)} of the hits. Without calibration it would be ${ordinal(before)}.`;
    },
    hub: "It is near many other queries too, which counts against it.",
    shift: (shift) => (shift > 0
      ? "Its kind as a whole lies far from such queries. That was made up for."
      : "Its kind as a whole lies near such queries. That was taken off."),
    words: "It shares words with the query, which counts for it.",
    raised: "It has the picture of the query, or nearly the same, so it was raised to the top.",
    rawOnly: "The nearest documents stand first, with no correction for their kind or for being near everything.",
    passage: "The passage that matches best is marked in the text.",
  },
  numbers: {
    probability: "probability of a match",
    similarity: "similarity (cosine)",
    part: (name) => `of it, ${name.toLowerCase()}`,
    shift: "correction for its kind",
    hub: "for being near many queries",
    words: "for shared words",
    score: "score after calibration",
    signed: (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`,
    plain: (value) => value.toFixed(3),
  },
  wholeText: (characters) => `Show the whole text (${characters.toLocaleString("en")} characters)`,
  readText: "The text that was read from the picture",
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
    strongest: (list) => `Its strongest words: ${list.map(({ word }) => word).join(", ")}.`,
    hottest: (down, across) => {
      const where = [["top", "", "bottom"][down], ["left", "", "right"][across]].filter(Boolean).join(" ");
      return `Red counts for the match, blue against it. What counts most is ${where ? `at the ${where}` : "in the middle"}.`;
    },
    details: "Details of the map",
    patch: "strongest patch",
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
  addedBefore: (said) => `Before that: ${said}`,
  unread: "cannot be read",
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
    verdicts: { // by level: what it means for people who search, and what is to be done
      fair: ["Every kind of document gets its share", "No kind crowds out another.", "Nothing."],
      corrected: ["Calibration gives every kind its share", "Without it, some kinds of documents would stand too far behind.", "Nothing. Leave the ranking on Calibrated."],
      partly: ["Some kinds are a little hard to find", "Calibration makes up for part of it.", "Look for one kind at a time with the chips above the hits. Whoever runs this collection can improve its calibration."],
      unfair: ["Some kinds are hard to find", "", "Look for one kind at a time with the chips above the hits. Whoever runs this collection can mend it."],
      unsure: ["Whether this search is fair is not known yet", "You can search as usual. Too few test queries have a known right answer to say whether each kind of document gets its share.", "Nothing. Whoever runs this collection can examine it with queries whose right answers are known."],
    },
    unknown: "Not known",
    measured: "What was measured",
    commands: "For whoever runs this collection",
    todo: "What to do",
    first: "The first hit",
    firstIs: (gained, lost, questions, clear) => {
      const of = `Of ${many(questions, "test query", "test queries")} with a known right answer, calibration`;
      if (!gained && !lost) return `${of} changed the first hit of none.`;
      const said = `${of} brought the right one to the first place in ${gained} and took it away in ${lost}.`;
      return clear ? said : `${said} So small a difference may be chance.`;
    },
    gap: "Gap",
    gapIs: "How much of the differences between documents their kind alone explains. Less is better.",
    gapSame: "Calibration leaves this as it is. It corrects the scores, not where documents lie.",
    both: "with and without calibration",
    raw: "raw cosine",
    calibrated: "calibrated",
    chance: "by chance",
    equal: "equal chance",
    shares: "Shares of the first ten",
    sharesIs: "Which kinds of documents stand among the first ten hits.",
    asked: {
      text: "Asked with words", image: "Asked with a picture", "image+text": "Asked with words and a picture",
      audio: "Asked with a sound", "audio+text": "Asked with words and a sound", video: "Asked with a video",
    },
    otherwise: "Asked in other ways",
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
