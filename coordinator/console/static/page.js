// Small comforts of every page: local times, dialogs, show-password. Each page works without them.

const clock = { offsetMs: Number(document.body.dataset.now) * 1000 - Date.now() };
const dayAndTime = new Intl.DateTimeFormat(undefined, {
  day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short",
});
const timeOnly = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** The two largest units of a duration, as the server writes it. */
function durationWords(seconds) {
  let rest = Math.max(0, Math.floor(seconds));
  const counts = UNITS.map(([size, name]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return [count, name];
  });
  const first = counts.findIndex(([count]) => count > 0);
  if (first < 0) return "0 s";
  return counts.slice(first, first + 2).filter(([count]) => count > 0).map(([count, name]) => `${count} ${name}`).join(" ");
}

function secondsSince(element) {
  return (Date.now() + clock.offsetMs - Date.parse(element.dateTime)) / 1000;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function localise(root) {
  for (const element of root.querySelectorAll("time[data-when]")) {
    const since = secondsSince(element);
    setText(element, dayAndTime.format(new Date(element.dateTime)));
    element.title = `${element.dateTime} · ${since >= 0 ? `${durationWords(since)} ago` : `in ${durationWords(-since)}`}`;
  }
  for (const element of root.querySelectorAll("time[data-clock]")) {
    setText(element, timeOnly.format(new Date(element.dateTime)));
    element.title = element.dateTime;
  }
  for (const element of root.querySelectorAll("time[data-ago]")) element.title = dayAndTime.format(new Date(element.dateTime));
}

function tick() {
  for (const element of document.querySelectorAll("time[data-ago]")) setText(element, `${durationWords(secondsSince(element))} ago`);
}

function revealPassword(button) {
  const field = document.getElementById(button.dataset.show);
  const shown = field.type === "text";
  field.type = shown ? "password" : "text";
  button.textContent = shown ? "Show" : "Hide";
  button.setAttribute("aria-pressed", String(!shown));
}

/** Show the confirm page of a link in a dialog; anything unexpected goes to the page itself. */
async function openDialog(link) {
  const dialog = document.getElementById("dialog");
  try {
    const response = await fetch(link.href, { headers: { "Stoker-Region": "yes" } });
    const confirm = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("confirm");
    if (!response.ok || !confirm || !dialog) throw new Error("no confirm page");
    confirm.classList.remove("panel");
    confirm.querySelector(".crumb")?.remove();
    dialog.replaceChildren(document.importNode(confirm, true));
    localise(dialog);
    dialog.showModal();
  } catch {
    location.href = link.href;
  }
}

document.addEventListener("click", (event) => {
  const target = event.target;
  if (!(target instanceof Element)) return;
  const reveal = target.closest("[data-show]");
  if (reveal) revealPassword(reveal);
  const plain = !event.metaKey && !event.ctrlKey && !event.shiftKey && event.button === 0;
  const link = target.closest("a[data-dialog]");
  if (link && plain) {
    event.preventDefault();
    openDialog(link);
  }
  const close = target.closest("dialog [data-close]");
  if (close && plain) {
    event.preventDefault();
    close.closest("dialog").close();
  }
  const account = document.getElementById("account");
  if (account?.open && !account.contains(target)) account.open = false;
});

document.addEventListener("keydown", (event) => {
  const account = document.getElementById("account");
  if (event.key === "Escape" && account?.open) {
    account.open = false;
    document.getElementById("account-open").focus();
  }
});

document.addEventListener("stoker:clock", (event) => {
  clock.offsetMs = event.detail.now * 1000 - Date.now();
});
document.addEventListener("stoker:fresh", (event) => localise(event.detail.root));
document.body.addEventListener("htmx:load", (event) => localise(event.detail.elt.parentElement ?? document));

for (const button of document.querySelectorAll("[data-show]")) button.hidden = false;
document.querySelector("[data-focus]")?.focus();
localise(document);
setInterval(tick, 1000);
