// Follows the coordinator's event stream and fetches again the parts of the page that a notice names.
// A part says so itself: data-region (its address), data-kinds, data-only (one id), data-tick (again with each ping).

const GATHER_MS = 250;
const BETWEEN_FETCHES_MS = 1000;
const SILENCE_MS = 40_000;
const STALE_MS = 45_000;
const HIDDEN_MS = 10_000;

const line = document.getElementById("live");
const words = document.getElementById("live-line");
const pauseButton = document.getElementById("live-pause");
const at = document.createElement("span");
const timeOnly = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

const state = {
  source: null, place: null, tries: 0, retryTimer: 0, hiddenTimer: 0, heardMs: Date.now(), paused: false, signedOut: false, everLost: false,
};
const pending = { notices: new Map(), all: false, timer: 0 };
const fetched = new WeakMap();

function say(live, text) {
  line.dataset.live = live;
  if (words.textContent !== text) words.textContent = text;
}

function sayWhen() {
  const time = timeOnly.format(new Date(state.heardMs));
  const text = line.dataset.live === "on" ? `· updated ${time}` : `data as of ${time}`;
  if (at.textContent !== text) at.textContent = text;
}

function heard() {
  state.heardMs = Date.now();
  if (line.dataset.live !== "on") say("on", "Live");
  sayWhen();
  setStale(false);
}

function setStale(stale) {
  if (document.body.classList.contains("stale") === stale) return;
  document.body.classList.toggle("stale", stale);
  document.getElementById("stale-note")?.remove();
  if (!stale) return;
  const note = document.createElement("div");
  note.id = "stale-note";
  note.className = "note warn";
  note.setAttribute("role", "alert");
  note.textContent = `No contact with the coordinator since ${timeOnly.format(new Date(state.heardMs))}. What you see is from then.`;
  document.getElementById("main").prepend(note);
}

function tell(name, detail) {
  document.dispatchEvent(new CustomEvent(name, { detail }));
}

function close() {
  state.source?.close();
  state.source = null;
  clearTimeout(state.retryTimer);
}

function connect() {
  close();
  if (state.paused || state.signedOut || document.hidden && state.everLost) return;
  const source = new EventSource(`/v1/stream${state.place ? `?cursor=${encodeURIComponent(state.place)}` : ""}`);
  state.source = source;
  source.addEventListener("hello", (event) => {
    const hello = JSON.parse(event.data);
    const cameBack = state.place !== null;
    state.place ??= hello.place;
    state.tries = 0;
    heard();
    if (hello.build !== document.body.dataset.build) offerReload();
    if (cameBack) refetchAll();
  });
  source.addEventListener("changes", (event) => {
    state.place = event.lastEventId;
    heard();
    for (const item of JSON.parse(event.data).items) pending.notices.set(`${item.kind} ${item.id}`, item);
    schedule();
  });
  source.addEventListener("resync", (event) => {
    state.place = event.lastEventId;
    heard();
    refetchAll();
  });
  source.addEventListener("ping", (event) => {
    heard();
    tell("stoker:clock", JSON.parse(event.data));
    for (const region of document.querySelectorAll("[data-region][data-tick]")) refetch(region);
  });
  source.addEventListener("signed-out", signedOut);
  source.addEventListener("error", lost);
}

function lost() {
  close();
  if (state.paused || state.signedOut) return;
  state.everLost = true;
  say("off", "Reconnecting…");
  sayWhen();
  const waitMs = Math.min(30, 2 ** state.tries) * 1000 * (0.5 + Math.random() / 2);
  state.tries += 1;
  state.retryTimer = setTimeout(probe, waitMs);
}

/** EventSource does not say why it failed, so ask a page: gone, signed out, or there again. */
async function probe() {
  try {
    const answer = await fetch("/jobs/new", { method: "HEAD", redirect: "manual" });
    if (answer.type === "opaqueredirect") return signedOut();
    if (answer.ok) return connect();
  } catch {
    // not reachable: the next try comes by itself
  }
  lost();
}

function signedOut() {
  close();
  state.signedOut = true;
  say("off", "");
  const link = document.createElement("a");
  link.href = `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
  link.textContent = "Signed out. Log in to see newer data";
  words.replaceChildren(link);
  sayWhen();
}

function offerReload() {
  if (document.getElementById("reload-note")) return;
  const note = document.createElement("div");
  note.id = "reload-note";
  note.className = "note";
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = "Reload the page";
  note.append("The coordinator was updated. ", link, " to use its new version.");
  document.getElementById("main").prepend(note);
}

function schedule() {
  pending.timer ||= setTimeout(flush, GATHER_MS);
}

function refetchAll() {
  pending.all = true;
  schedule();
}

function flush() {
  const notices = [...pending.notices.values()];
  const all = pending.all;
  pending.notices.clear();
  pending.all = false;
  pending.timer = 0;
  for (const region of document.querySelectorAll("[data-region]")) {
    const kinds = region.dataset.kinds.split(" ");
    const only = region.dataset.only;
    if (all || notices.some((notice) => kinds.includes(notice.kind) && (!only || only === notice.id))) refetch(region);
  }
  tell("stoker:changes", { notices, all });
}

/** Fetch one part again, at most once a second, keeping what the person opened and where they scrolled. */
function refetch(region) {
  const last = fetched.get(document.body) ?? {};
  fetched.set(document.body, last);
  const entry = (last[region.id] ??= { at: 0, busy: false, again: false });
  if (entry.busy) {
    entry.again = true;
    return;
  }
  entry.busy = true;
  const waitMs = Math.max(0, entry.at + BETWEEN_FETCHES_MS - Date.now());
  setTimeout(async () => {
    entry.at = Date.now();
    entry.again = false;
    await swap(region.id);
    entry.busy = false;
    const now = document.getElementById(region.id);
    if (entry.again && now) refetch(now);
  }, waitMs);
}

async function swap(id) {
  const region = document.getElementById(id);
  if (!region || region.contains(document.querySelector("dialog[open]"))) return;
  const open = [...region.querySelectorAll("details[open][id]")].map((details) => details.id);
  const scrolled = [...region.querySelectorAll("[id]")].filter((part) => part.scrollLeft > 0).map((part) => [part.id, part.scrollLeft]);
  try {
    await window.htmx.ajax("GET", region.dataset.region, {
      target: `#${id}`, select: `#${id}`, swap: "outerHTML", headers: { "Stoker-Region": "yes" },
    });
  } catch {
    return; // the stream notices a coordinator that is gone
  }
  for (const part of open) document.getElementById(part)?.setAttribute("open", "");
  for (const [part, left] of scrolled) document.getElementById(part)?.scrollTo({ left });
}

document.body.addEventListener("htmx:beforeSwap", (event) => {
  const { target, xhr } = event.detail;
  if (xhr.status < 400 && xhr.responseText.includes(`id="${target.id}"`)) return;
  event.detail.shouldSwap = false; // a log-in page or a problem: show it whole
  if (xhr.status < 500 && !event.detail.requestConfig.headers["Stoker-Region"]) location.reload();
});

pauseButton.addEventListener("click", () => {
  state.paused = !state.paused;
  pauseButton.setAttribute("aria-pressed", String(state.paused));
  if (state.paused) {
    close();
    setStale(false);
    say("off", "Paused ·");
    sayWhen();
  } else {
    say("none", "Connecting…");
    connect();
  }
});

document.addEventListener("visibilitychange", () => {
  clearTimeout(state.hiddenTimer);
  if (document.hidden) {
    state.hiddenTimer = setTimeout(close, HIDDEN_MS);
  } else if (!state.source && !state.paused && !state.signedOut) {
    connect();
  }
});
addEventListener("pagehide", close);
addEventListener("pageshow", (event) => {
  if (event.persisted) connect();
});

setInterval(() => {
  const silentMs = Date.now() - state.heardMs;
  if (state.paused || document.hidden) return;
  if (state.source && silentMs > SILENCE_MS) lost();
  if (!state.signedOut && silentMs > STALE_MS) setStale(true);
}, 1000);

at.id = "live-at";
words.after(" ", at);
say("none", "Connecting…");
sayWhen();
pauseButton.hidden = false;
connect();
