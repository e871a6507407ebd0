// What makes an open page go on: parts that changed are fetched again, and a log grows at its end.
// Every page is complete without it.
"use strict";

const PAUSE_MS = 2000; // between two fetches, however often the bucket changes
const MOST_CHARACTERS = 400000; // of a followed log; older text is still in the bucket
let lastFetch = 0;
let waiting = null;

function refresh() {
  waiting = null;
  lastFetch = Date.now();
  fetch(location.href, { headers: { "x-live": "1" } })
    .then((answer) => answer.text())
    .then((text) => {
      const fresh = new DOMParser().parseFromString(text, "text/html");
      for (const part of document.querySelectorAll("[data-live]")) {
        const other = fresh.getElementById(part.id);
        if (other && other.innerHTML !== part.innerHTML) replace(part, other);
      }
      beat(true);
    })
    .catch(() => beat(false));
}

function replace(part, other) {
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const links = focused ? [...part.querySelectorAll("a")] : [];
  const at = focused ? links.indexOf(focused) : -1;
  const address = focused && focused.getAttribute("href");
  part.innerHTML = other.innerHTML;
  if (at >= 0) {
    const now = [...part.querySelectorAll("a")];
    const same = now.find((link) => link.getAttribute("href") === address) || now[at];
    if (same) same.focus({ preventScroll: true });
  }
}

function changed() {
  if (waiting === null) {
    const wait = Math.max(0, lastFetch + PAUSE_MS - Date.now());
    waiting = setTimeout(refresh, wait);
  }
}

function beat(on) {
  const pulse = document.getElementById("pulse");
  if (pulse) pulse.classList.toggle("on", on);
}

function followPage() {
  const source = new EventSource("/live?version=" + encodeURIComponent(document.body.dataset.version));
  source.addEventListener("changed", changed);
  source.addEventListener("open", () => beat(true));
  source.addEventListener("error", () => beat(false));
}

function followLog(box) {
  const source = new EventSource(box.dataset.follow);
  const isWanted = () => document.getElementById("follow").checked;
  box.scrollTop = box.scrollHeight;
  source.addEventListener("text", (event) => {
    const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    box.append(document.createTextNode(JSON.parse(event.data)));
    while (box.childNodes.length > 1 && box.textContent.length > MOST_CHARACTERS) box.firstChild.remove();
    if (isAtEnd && isWanted()) box.scrollTop = box.scrollHeight;
  });
  source.addEventListener("over", () => source.close());
  document.getElementById("follow").addEventListener("change", () => {
    if (isWanted()) box.scrollTop = box.scrollHeight;
  });
}

followPage();
const log = document.querySelector("[data-follow]");
if (log) followLog(log);
