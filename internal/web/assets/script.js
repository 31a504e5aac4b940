// The page is complete without this script. It filters and sorts the list of
// trials, keeps a live page up to date, and moves between the steps of a
// trajectory. It makes no markup from anything a trial wrote: text is compared
// as text, and fragments come escaped from the server.
"use strict";
(() => {
  const live = document.body.dataset.live === "1";
  const form = document.getElementById("filter");
  const field = (name) => form.elements.namedItem(name).value;

  // ---- filter -------------------------------------------------------------
  const columns = { task: 1, agent: 2, outcome: 4, cause: 5 };

  function filterHere() {
    const rows = document.querySelectorAll("#list tbody tr");
    const words = field("q").toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = Object.entries(columns).filter(([k]) => field(k))
      .map(([k, i]) => [form.elements.namedItem(k).selectedOptions[0].text, i]); // a cell shows what its option shows
    let shown = 0;
    for (const row of rows) {
      const text = words.length ? row.textContent.toLowerCase() : "";
      const ok = wanted.every(([v, i]) => row.cells[i].textContent === v) && words.every((w) => text.includes(w));
      row.hidden = !ok;
      if (ok) shown++;
    }
    document.getElementById("shown").textContent = `${shown} of ${rows.length} trials`;
  }

  function address() {
    const q = new URLSearchParams();
    for (const [k, v] of new FormData(form)) if (v) q.set(k, v);
    const s = q.toString();
    return location.pathname + (s ? "?" + s : "");
  }

  if (form) {
    form.hidden = false;
    form.querySelector("button").hidden = true;
    let wait = 0;
    const changed = () => {
      clearTimeout(wait);
      wait = setTimeout(() => {
        if (!live) return filterHere();
        history.replaceState(null, "", address());
        refresh();
      }, live ? 200 : 60);
    };
    form.addEventListener("input", changed);
    form.addEventListener("submit", (e) => { e.preventDefault(); changed(); });
  }

  // ---- sort ---------------------------------------------------------------
  let order = null; // [column, ascending]

  const value = (cell) => {
    const v = cell.dataset.v ?? cell.textContent;
    const n = parseFloat(v);
    return Number.isNaN(n) || !/^[\s\d.+-]+$/.test(v) ? v : n;
  };

  function sort() {
    const body = document.querySelector("#list tbody");
    if (!order || !body) return;
    const [i, up] = order;
    const rows = [...body.rows].map((r) => [value(r.cells[i]), r]);
    rows.sort(([a], [b]) => {
      if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1; // unknown stands last
      const c = typeof a === "number" ? a - b : a.localeCompare(b);
      return up ? c : -c;
    });
    body.append(...rows.map(([, r]) => r));
    document.querySelectorAll("#list thead th").forEach((th, j) => {
      if (j === i) th.setAttribute("aria-sort", up ? "ascending" : "descending");
      else th.removeAttribute("aria-sort");
    });
  }

  function sortable() {
    document.querySelectorAll("#list thead th").forEach((th, i) => {
      if (th.querySelector("button")) return;
      const b = document.createElement("button");
      b.type = "button";
      b.append(...th.childNodes);
      b.addEventListener("click", () => { order = [i, !(order && order[0] === i && order[1])]; sort(); });
      th.append(b);
    });
  }
  sortable();

  // ---- live ---------------------------------------------------------------
  let busy = false, again = false;

  async function refresh() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const url = new URL(location.href);
      url.searchParams.set("fragment", "1");
      const res = await fetch(url);
      if (!res.ok) return;
      const next = new DOMParser().parseFromString(await res.text(), "text/html");
      for (const id of ["live", "rows", "main"]) {
        const from = next.getElementById(id), to = document.getElementById(id);
        if (!from || !to) continue;
        const open = [...to.querySelectorAll("details")].map((d) => d.open);
        const side = to.querySelector(".side")?.scrollTop ?? 0;
        to.replaceChildren(...from.childNodes);
        const now = to.querySelectorAll("details");
        if (now.length === open.length) now.forEach((d, i) => { d.open = open[i]; });
        const s = to.querySelector(".side");
        if (s) s.scrollTop = side;
      }
      sortable();
      sort();
    } finally {
      busy = false;
      if (again) { again = false; refresh(); }
    }
  }

  if (document.body.dataset.feed) {
    const feed = new EventSource(document.body.dataset.feed);
    let due = 0;
    const soon = () => { due ||= setTimeout(() => { due = 0; refresh(); }, 700); };
    feed.addEventListener("trial", soon);
    feed.addEventListener("end", () => { feed.close(); soon(); });
  }

  // ---- keys: / to the filter, j and k through the steps, o to unfold -------
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    if (e.key === "/" && form && form.offsetParent) {
      e.preventDefault();
      form.elements.namedItem("q").focus();
      return;
    }
    const steps = [...document.querySelectorAll(".step")].filter((s) => s.offsetParent);
    const at = steps.indexOf(document.activeElement.closest?.(".step"));
    if (e.key === "j" || e.key === "k") {
      const to = steps[Math.max(0, Math.min(steps.length - 1, at + (e.key === "j" ? 1 : -1)))];
      to?.focus();
      to?.scrollIntoView({ block: "nearest" });
    } else if (e.key === "o" && at >= 0) {
      const folds = steps[at].querySelectorAll("details");
      const open = [...folds].some((d) => !d.open);
      folds.forEach((d) => { d.open = open; });
    }
  });
})();
