// Appends new lines to the log as they arrive, and follows its end until the reader scrolls up.

const MOST_CHUNKS = 200;
const BETWEEN_FETCHES_MS = 500;
const log = document.getElementById("log");
const follow = document.getElementById("follow");
const past = "past" in log.dataset;
let busy = false;
let again = false;

function toEnd() {
  log.scrollTop = log.scrollHeight;
}

/** Fetch what came after the last line shown; a cursor in the address makes repeats and holes impossible. */
async function fetchNew() {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  again = false;
  try {
    const address = `/sessions/${log.dataset.job}/logs/after?after=${encodeURIComponent(log.dataset.next)}`;
    const answer = await fetch(address, { headers: { "Stoker-Region": "yes" } });
    const lines = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("lines");
    if (lines) append(lines);
  } catch {
    // the stream notices a coordinator that is gone, and says when it is back
  }
  setTimeout(() => {
    busy = false;
    if (again) fetchNew();
  }, BETWEEN_FETCHES_MS);
}

function append(lines) {
  log.dataset.next = lines.dataset.next;
  const fresh = [...document.importNode(lines, true).children];
  if (!fresh.length) return;
  document.getElementById("log-empty")?.remove();
  log.append(...fresh);
  const chunks = log.querySelectorAll("pre");
  for (let index = 0; index < chunks.length - MOST_CHUNKS; index += 1) chunks[index].remove();
  document.dispatchEvent(new CustomEvent("stoker:fresh", { detail: { root: log } }));
  if (follow.checked) toEnd();
}

document.addEventListener("stoker:changes", (event) => {
  const { notices, all } = event.detail;
  if (!past && (all || notices.some((notice) => notice.kind === "logs" && notice.id === log.dataset.job))) fetchNew();
});
follow.addEventListener("change", () => follow.checked && toEnd());
log.addEventListener("wheel", (event) => {
  if (event.deltaY < 0) follow.checked = false;
}, { passive: true });
log.addEventListener("keydown", (event) => {
  if (["ArrowUp", "PageUp", "Home"].includes(event.key)) follow.checked = false;
});
log.addEventListener("scroll", () => {
  if (log.scrollHeight - log.scrollTop - log.clientHeight < 4) follow.checked = true;
});

if (!past) {
  document.getElementById("follow-label").hidden = false;
  toEnd();
}
