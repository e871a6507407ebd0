// What makes an open page go on: parts that changed are fetched again, and a log grows at its end.
// Every page is complete without it.
"use strict";

const PAUSE_MS = 2000; // between two fetches, however often the bucket changes
const PENDING_MS = 400; // between two questions for what is being read
const AGAIN_MS = 30000; // after a server that had no place for one more
const LOST_MS = 4000; // without the server, until the page says so: a restart takes less
const MOST_CHARACTERS = 400000; // of a followed log; older text is still in the bucket
const KEPT = "details, .map, .bounded"; // what a reader opens and scrolls, and finds again as it was
const FOCUSED = "a, summary, [tabindex]"; // what the keyboard may be on while a part is replaced
let lastFetch = 0;
let failures = 0; // in a row
let waiting = null;
let lost = null;

function refresh() {
  waiting = null;
  lastFetch = Date.now();
  fetch(location.href, { headers: { "x-live": "1" } })
    .then((answer) => (answer.ok ? answer.text() : Promise.reject(answer.status)))
    .then((text) => {
      failures = 0;
      const fresh = new DOMParser().parseFromString(text, "text/html");
      for (const part of document.querySelectorAll("[data-live]")) {
        const other = fresh.getElementById(part.id);
        if (other && other.innerHTML !== closed(part).innerHTML) replace(part, other);
      }
      beat(true);
    })
    .catch(() => {
      failures += 1;
      beat(false);
    })
    .finally(awaitRecord);
}

// As the server sent it: what a reader has opened is no change.
function closed(part) {
  const copy = part.cloneNode(true);
  for (const each of copy.querySelectorAll("details[open]")) each.removeAttribute("open");
  return copy;
}

function replace(part, other) {
  const kept = [...part.querySelectorAll(KEPT)].map((each) => [each.open, each.scrollTop, each.scrollLeft]);
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const links = focused ? [...part.querySelectorAll(FOCUSED)] : [];
  const at = focused ? links.indexOf(focused) : -1;
  const address = focused && focused.getAttribute("href");
  part.innerHTML = other.innerHTML;
  [...part.querySelectorAll(KEPT)].forEach((each, n) => {
    const [isOpen, top, left] = kept[n] || [];
    if (isOpen) each.open = true;
    each.scrollTo(left || 0, top || 0);
  });
  if (at >= 0) {
    const now = [...part.querySelectorAll(FOCUSED)];
    const same = (address && now.find((link) => link.getAttribute("href") === address)) || now[at];
    if (same) same.focus({ preventScroll: true });
  }
}

function changed() {
  if (waiting === null) {
    const wait = Math.max(0, lastFetch + PAUSE_MS - Date.now());
    waiting = setTimeout(refresh, wait);
  }
}

// A page is sent before the record has answered; what it says is fetched as soon as it has.
function awaitRecord() {
  if (waiting === null && document.querySelector("[data-pending]")) waiting = setTimeout(refresh, Math.min(AGAIN_MS, PENDING_MS * 2 ** failures));
}

function beat(on) {
  const pulse = document.getElementById("pulse");
  const notice = document.getElementById("not-live");
  if (pulse) pulse.classList.toggle("on", on);
  if (on) {
    clearTimeout(lost);
    lost = null;
    notice.hidden = true;
  } else if (lost === null) {
    lost = setTimeout(() => (notice.hidden = false), LOST_MS);
  }
}

// A server that restarts is found again by the browser; one that refused, by asking again here.
function followed(address, events) {
  const source = new EventSource(address());
  for (const [name, told] of Object.entries(events)) source.addEventListener(name, (event) => told(event, source));
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) setTimeout(() => followed(address, events), AGAIN_MS);
  });
}

function followPage() {
  const address = "/live?version=" + encodeURIComponent(document.body.dataset.version);
  followed(() => address, { changed, open: () => beat(true), error: () => beat(false) });
}

function showBytes(end) {
  const bytes = document.getElementById("log-bytes");
  const [first, last] = [Number(bytes.dataset.begin), end].map((each) => each.toLocaleString("en-US"));
  if (end) bytes.textContent = "bytes " + first + "–" + last + " and growing";
}

function followLog(box) {
  const end = document.getElementById("log-end");
  const wanted = document.getElementById("follow");
  const address = new URL(box.dataset.follow, location.href);
  box.scrollTop = box.scrollHeight;
  const text = (event) => {
    const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    const told = JSON.parse(event.data);
    if (told.text) box.insertBefore(document.createTextNode(told.text), end);
    end.textContent = told.unfinished;
    address.searchParams.set("at", event.lastEventId);
    showBytes(Number(event.lastEventId));
    while (box.childNodes.length > 2 && box.textContent.length > MOST_CHARACTERS) box.firstChild.remove();
    if (isAtEnd && wanted.checked) box.scrollTop = box.scrollHeight;
  };
  followed(() => address.href, { text, over: (_, source) => source.close() });
  wanted.addEventListener("change", () => {
    if (wanted.checked) box.scrollTop = box.scrollHeight;
  });
}

// On a narrow screen the menu scrolls.
function showOwnPage() {
  const own = document.querySelector(".top nav [aria-current]");
  if (own) own.parentElement.scrollLeft = own.offsetLeft - own.parentElement.offsetLeft - 40;
}

followPage();
awaitRecord();
showOwnPage();
const log = document.querySelector("[data-follow]");
if (log) followLog(log);
