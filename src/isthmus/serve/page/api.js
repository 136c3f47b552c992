// Calls to the server. An answer is JSON; an error is an ApiError with the server's own message.

import { words } from "./words.js";

const KEY = "isthmus.key";
const LONGEST = 5; // seconds to wait when the server is busy
let asking = null; // the one prompt for a key that is open
let prompt = async () => null;

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const key = () => sessionStorage.getItem(KEY);

export function setKey(value) {
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
}

/** Set what asks the person for a key. */
export function onKeyNeeded(ask) {
  prompt = ask;
}

/** Send a request and return the response; ask for a key, or wait, if the server says so. */
export async function send(place, { method = "GET", body = null, signal = null, again = true } = {}) {
  const headers = {};
  const used = key();
  if (used) headers.Authorization = `Bearer ${used}`;
  const form = body instanceof FormData;
  if (body !== null && !form) headers["Content-Type"] = "application/json";
  const sent = body === null || form ? body : JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(place, { method, headers, signal, body: sent, credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, words.offline);
  }
  if (answer.ok) return answer;
  if (answer.status === 401) {
    if (key() === used) await askForKey(used);
    if (key() && key() !== used) return send(place, { method, body, signal, again });
  }
  if (again && (answer.status === 429 || answer.status === 503)) {
    const seconds = Math.min(Number(answer.headers.get("Retry-After")) || 1, LONGEST);
    await new Promise((done) => { setTimeout(done, seconds * 1000); });
    return send(place, { method, body, signal, again: false });
  }
  throw new ApiError(answer.status, await messageOf(answer));
}

async function askForKey(wrong) {
  asking ??= prompt(Boolean(wrong)).then(setKey).finally(() => { asking = null; });
  await asking;
}

async function messageOf(answer) {
  try {
    return (await answer.json()).error.message;
  } catch {
    return words.failed(answer.status);
  }
}

const json = async (place, options) => (await send(place, options)).json();
const of = (collection) => `/v1/collections/${encodeURIComponent(collection)}`;
const at = (collection, id) => `${of(collection)}/documents/${encodeURIComponent(id)}`;

export const api = {
  collections: async () => (await json("/v1/collections")).collections,
  stats: (name) => json(`${of(name)}/stats`),
  search: (name, body, signal) => json(`${of(name)}/search`, { method: "POST", body, signal }),
  similar: (name, id, body, signal) => json(`${at(name, id)}/similar`, { method: "POST", body, signal }),
  hasMaps: async (name) => (await json(`${of(name)}/maps`)).maps,
  map: (name, id, body) => json(`${at(name, id)}/maps`, { method: "POST", body }),
  values: async (name, field) => {
    const asked = new URLSearchParams(field ? { field } : {});
    return (await json(`${of(name)}/values?${asked}`)).fields;
  },
  document: (name, id) => json(at(name, id)),
  list: (name, { limit, after, where, signal }) => {
    const asked = new URLSearchParams({ limit, after: after ?? -1 });
    if (where) asked.set("where", JSON.stringify(where));
    return json(`${of(name)}/documents?${asked}`, { signal });
  },
  upload: (name, form) => json(`${of(name)}/documents`, { method: "POST", body: form }),
  calibration: (name) => json(`${of(name)}/calibration`),
  diagnosis: (name) => json(`${of(name)}/diagnose`),
  diagnose: (name) => json(`${of(name)}/diagnose`, { method: "POST", body: {} }),
  jobs: async (name) => (await json(`${of(name)}/jobs`)).jobs,
  job: (name, id) => json(`${of(name)}/jobs/${id}`),
};
