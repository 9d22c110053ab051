// Asks for the page again when the log has something new that it shows, and puts what differs
// in its place, so that what has the focus, is open or is scrolled to stays so.
"use strict";
(() => {
  const main = document.getElementById("main");
  // A slider that is let go shows what was then.
  addEventListener("change", ({ target }) => { if (target.matches("[data-submit]")) target.form.requestSubmit(); });
  addEventListener("input", ({ target }) => { if (target.matches("[data-submit]")) target.form.querySelector("output").value = target.value; });
  // A cell of the grid leads to its host; without this, to the page of details that has it.
  const hostOf = (cell) => cell.title.slice(0, cell.title.lastIndexOf(":"));
  document.getElementById("grid")?.parentElement.addEventListener("click", (click) => {
    if (!click.target.matches("#grid .cell") || click.ctrlKey || click.metaKey || click.shiftKey) return;
    click.preventDefault();
    const to = new URL(location.href);
    for (const name of ["state", "from"]) to.searchParams.delete(name);
    to.searchParams.set("host", hostOf(click.target));
    to.hash = "details";
    location.assign(to);
  });
  const state = document.getElementById("live");
  if (!main || !("follow" in main.dataset)) return;
  const targets = main.dataset.follow.split("\n");
  const rest = 300; // milliseconds between two updates, at least
  let head = Number(main.dataset.head), newest = head;
  let events = null, asking = false, timer = 0, ended = 0, failures = 0;

  const follows = (target) => targets.some((t) => t === "*" || target === t || target.startsWith(t + "/"));
  const say = (text) => { if (state.textContent !== text) state.textContent = text; };

  // connect follows the log from what the page shows. A page that nobody sees follows nothing:
  // a browser has few connections to a server.
  function connect() {
    disconnect();
    events = new EventSource("/v1/events?after=" + newest);
    events.onopen = () => { failures = 0; say(""); };
    events.onmessage = (message) => {
      const event = JSON.parse(message.data);
      newest = Math.max(newest, event.seq || 0);
      if (event.target && follows(event.target)) update();
    };
    events.onerror = () => {
      disconnect();
      failures++;
      say("Not live: trying again.");
      update(); // which finds out whether the session has ended
      setTimeout(() => { if (!document.hidden && !events) connect(); }, Math.min(30000, 500 * 2 ** failures));
    };
  }
  function disconnect() { if (events) events.close(); events = null; }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { disconnect(); return; }
    connect();
    update();
  });
  addEventListener("pagehide", disconnect);

  function update() {
    if (asking || timer) { if (asking) asking = "again"; return; }
    timer = setTimeout(ask, Math.max(0, ended + rest - performance.now()));
  }
  let whole = false; // the next answer is to have the cells of the grid
  async function ask() {
    timer = 0; asking = true;
    const began = performance.now();
    try {
      const answer = await fetch(location.href, { headers: whole ? {} : { "Deployster-Live": "1" }, redirect: "manual", credentials: "same-origin" });
      if (answer.type === "opaqueredirect" || answer.status === 401) { location.reload(); return; }
      if (answer.ok) { const text = await answer.text(), had = whole; whole = false; apply(text, had); }
    } catch { say("Not live: trying again."); }
    main.dataset.asked = (performance.now() - began).toFixed(1);
    const again = asking === "again" || whole;
    asking = false; ended = performance.now();
    if (again) update(); else later();
  }
  // What a job prints is not in the log, so a page that shows it is asked for again while it lasts.
  let repeat = 0;
  function later() {
    clearTimeout(repeat);
    const pause = Number(main.dataset.again);
    if (pause) repeat = setTimeout(() => { if (!document.hidden) update(); }, pause);
  }
  function apply(text, hasCells) {
    const began = performance.now(), page = new DOMParser().parseFromString(text, "text/html");
    for (const id of ["main", "top"]) {
      const to = page.getElementById(id);
      const grid = document.getElementById("grid");
      if (hasCells && grid && page.getElementById("grid")) grid.replaceWith(document.importNode(page.getElementById("grid"), true));
      if (to) change(document.getElementById(id), to);
    }
    head = Number(main.dataset.head);
    document.title = page.title;
    main.dataset.took = (performance.now() - began).toFixed(1);
  }

  // cells has the grid show the hosts as they are now. It comes without its cells, which are the
  // same unless the hosts are others.
  function cells(from, to) {
    if (from.dataset.names !== to.dataset.names) { whole = true; return; }
    const was = from.dataset.codes, is = to.dataset.codes;
    if (was === is) return;
    from.dataset.codes = is;
    let i = 0;
    for (const cell of from.querySelectorAll(".cell")) {
      if (was[i] !== is[i]) {
        cell.className = "cell " + is[i];
        cell.title = hostOf(cell) + ": " + states[is[i]];
      }
      i++;
    }
  }
  const states = { f: "failed", l: "lost", d: "drifted", x: "cordoned", w: "waiting", s: "starting", t: "terminating", o: "older", c: "current" };

  // change makes one element like another. Children with a key are found again by it.
  function change(from, to) {
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && name !== "open" && name !== "data-took" && name !== "data-asked") from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (name !== "open" && name !== "value" || from.tagName === "PROGRESS") if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
    let i = 0;
    for (const next of [...to.childNodes]) {
      let here = from.childNodes[i];
      const key = next.dataset && next.dataset.key;
      if (key && !(here && here.dataset && here.dataset.key === key)) {
        const found = [...from.children].find((c) => c.dataset.key === key);
        if (found) { from.insertBefore(found, here || null); here = found; }
      }
      if (!here || here.nodeType !== next.nodeType || here.nodeName !== next.nodeName || (here.dataset && here.dataset.key) !== key) {
        from.insertBefore(document.importNode(next, true), here || null);
      } else if (here.nodeType === Node.TEXT_NODE) {
        if (here.data !== next.data) here.data = next.data;
      } else if (here.nodeType === Node.ELEMENT_NODE) {
        if (here.id === "grid") cells(here, next); else change(here, next);
      }
      i++;
    }
    while (from.childNodes.length > i) from.lastChild.remove();
  }
  if (!document.hidden) connect();
  later();
})();
