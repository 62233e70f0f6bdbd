"use strict";
// Everything here is a convenience: without it words keep their shades, bars and places, and the tables say the rest.

const SVG = "http://www.w3.org/2000/svg";
const made = (name, attributes, parent) => {
  const one = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
  if (parent) parent.append(one);
  return one;
};
const THREADS = 90; // words of both texts up to which all threads are drawn
const CELL = 22;

for (const pair of document.querySelectorAll("[data-explained]")) {
  const weave = pair.querySelector(".weave");
  const said = pair.querySelector(".said");
  const words = { h: [], r: [] };
  for (const side of pair.querySelectorAll(".side")) words[side.dataset.side] = [...side.querySelectorAll(".w")];
  const sideOf = (word) => word.closest(".side").dataset.side;
  const links = (word) => (word.dataset.l || "").split(" ").filter(Boolean).map((link) => {
    const [place, share, close] = link.split(":").map(Number);
    return { place, share, close };
  });
  const threads = made("svg", { "aria-hidden": "true" }, weave);
  let pinned = null;
  let shown = null;

  const thread = (from, to, share, close, strong) => {
    const box = weave.getBoundingClientRect();
    const [upper, lower] = sideOf(from) === "h" ? [from, to] : [to, from];
    const a = upper.getBoundingClientRect();
    const b = lower.getBoundingClientRect();
    const x = a.left + a.width / 2 - box.left, y = a.bottom - box.top;
    const u = b.left + b.width / 2 - box.left, v = b.top - box.top;
    const bend = Math.max(18, (v - y) / 2);
    made("path", {
      d: `M${x.toFixed(1)} ${y.toFixed(1)}C${x.toFixed(1)} ${(y + bend).toFixed(1)} ${u.toFixed(1)} ${(v - bend).toFixed(1)} ${u.toFixed(1)} ${v.toFixed(1)}`,
      "stroke-width": (strong ? 1.5 + share / 22 : 0.8 + share / 60).toFixed(2),
      opacity: (strong ? 0.35 + 0.65 * Math.max(0, close) : 0.12 + 0.45 * Math.max(0, close) * (share / 100)).toFixed(2),
    }, threads);
  };
  const alone = (word) => word.classList.contains("alone");
  const rowsOf = (side) => new Set(side.map((word) => word.offsetTop)).size;
  const draw = () => {
    threads.replaceChildren();
    if (shown) {
      const others = words[sideOf(shown) === "h" ? "r" : "h"];
      for (const { place, share, close } of links(shown)) if (others[place]) thread(shown, others[place], share, close, true);
    } else if (words.h.length + words.r.length <= THREADS && Math.max(rowsOf(words.h), rowsOf(words.r)) <= 2) {
      for (const word of words.h) for (const { place, share, close } of links(word)) {
        if (share >= 25 && words.r[place] && !alone(word) && !alone(words.r[place])) {
          const minor = [word, words.r[place]].some((one) => one.classList.contains("minor"));
          thread(word, words.r[place], minor ? share / 4 : share, close, false);
        }
      }
    }
  };
  const say = (word) => {
    said.replaceChildren();
    if (!word) return;
    const others = words[sideOf(word) === "h" ? "r" : "h"];
    const name = (one) => `\u2068${one.querySelector("b").textContent}\u2069`;
    const found = links(word).filter(({ place }) => others[place]);
    const partners = found.map(({ place, share, close }) => `${name(others[place])} (cosine ${close.toFixed(2)}, ${share} %)`);
    const text = document.createElement("span");
    const lonely = alone(word) ? ", without a counterpart of its own" : "";
    text.textContent = `${name(word)} adds ${word.dataset.a}${lonely}` + (partners.length ? ` · matched with ${partners.join(", ")}` : "");
    said.append(text);
  };
  const light = (word) => {
    shown = word && (word.dataset.l || word.dataset.a) ? word : null;
    pair.classList.toggle("glow", Boolean(shown));
    for (const one of pair.querySelectorAll(".lead, .mate")) one.classList.remove("lead", "mate");
    if (shown) {
      shown.classList.add("lead");
      const others = words[sideOf(shown) === "h" ? "r" : "h"];
      for (const { place } of links(shown)) if (others[place]) others[place].classList.add("mate");
    }
    say(shown);
    draw();
    mark();
  };
  const wordOf = (event) => (event.target instanceof Element ? event.target.closest(".side .w") : null);
  weave.addEventListener("pointerover", (event) => event.pointerType === "mouse" && light(wordOf(event) || pinned));
  weave.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && light(pinned));
  weave.addEventListener("click", (event) => {
    const word = wordOf(event);
    pinned = word === pinned ? null : word;
    light(pinned);
  });
  weave.addEventListener("focusin", (event) => light(wordOf(event)));
  weave.addEventListener("focusout", () => light(pinned));
  // Each text is one stop of the Tab key; arrows move within it, in the direction in which it is read.
  for (const side of Object.values(words)) {
    side.forEach((word, place) => {
      word.tabIndex = place === 0 ? 0 : -1;
      word.addEventListener("keydown", (event) => {
        if (event.key === "Escape") { pinned = null; light(null); return; }
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pinned = pinned === word ? null : word; light(pinned || word); return; }
        const turned = getComputedStyle(word.parentElement).direction === "rtl" ? -1 : 1;
        const step = { ArrowRight: turned, ArrowDown: 1, ArrowLeft: -turned, ArrowUp: -1 }[event.key];
        if (!step || !side[place + step]) return;
        event.preventDefault();
        word.tabIndex = -1;
        side[place + step].tabIndex = 0;
        side[place + step].focus();
      });
    });
  }

  // The map of all pairs: colours are cosines, discs what is moved.
  let discs = [];
  const mark = () => {
    const row = shown && sideOf(shown) === "r" ? words.r.indexOf(shown) : -1;
    const column = shown && sideOf(shown) === "h" ? words.h.indexOf(shown) : -1;
    for (const { element, at } of discs) {
      element.classList.toggle("dim", (row >= 0 && at[0] !== row) || (column >= 0 && at[1] !== column));
    }
  };
  const box = pair.querySelector("[data-map]");
  const drawMap = () => {
    if (!box || box.firstChild || !box.closest("details").open) return;
    const { names, compared, cosines, radii, blank } = JSON.parse(box.dataset.map);
    const label = (one) => { const text = one.querySelector("b").textContent; return text.length > 16 ? text.slice(0, 15) + "…" : text; };
    const rows = words.r.map(label), columns = words.h.map(label);
    const left = 14 + 6.6 * Math.max(...rows.map((one) => one.length), 4);
    const longest = 6.6 * Math.max(...columns.map((one) => one.length), 4);
    const top = 14 + 0.72 * longest;
    const width = left + CELL * columns.length + 0.72 * longest, height = top + CELL * rows.length + 4;
    const svg = made("svg", { viewBox: `0 0 ${width.toFixed(0)} ${height.toFixed(0)}`, role: "img", "aria-label": "Cosines of all pairs of words, and what is moved between them" });
    svg.style.width = `min(${width.toFixed(0)}px, max(100%, ${(0.6 * width).toFixed(0)}px))`; // smaller before it scrolls
    const name = (text, one, x, y, more) => { made("text", { x, y, class: one.classList.contains("alone") ? "alone" : "", ...more }, svg).textContent = text; };
    rows.forEach((text, row) => name(text, words.r[row], left - 7, top + CELL * row + 15, { "text-anchor": "end" }));
    columns.forEach((text, column) => {
      const x = left + CELL * column + 13, y = top - 6;
      name(text, words.h[column], x, y, { transform: `rotate(-45 ${x} ${y})` });
    });
    const half = names.length === 2;
    discs = [];
    rows.forEach((_, row) => columns.forEach((__, column) => {
      if (blank[0].includes(row) || blank[1].includes(column)) return;
      const cosine = cosines[row][column];
      const cell = made("g", {}, svg);
      const shade = cosine < 0 ? `b${Math.min(4, 1 + Math.floor(-cosine / 25))}` : `h${Math.min(7, Math.floor(cosine / 12.5))}`;
      made("rect", { x: left + CELL * column, y: top + CELL * row, width: CELL - 1, height: CELL - 1, fill: `var(--${shade})` }, cell);
      const x = left + CELL * (column + 0.5) - 0.5, y = top + CELL * (row + 0.5) - 0.5;
      radii.forEach((plan, side) => {
        const r = plan[row][column] * 0.0945;
        if (r < 0.7) return;
        const turn = side === 0 ? 0 : 1;
        if (half) made("path", { class: "disc", d: `M${x} ${y - r}A${r} ${r} 0 0 ${turn} ${x} ${y + r}Z` }, cell);
        else made("circle", { class: "disc", cx: x, cy: y, r }, cell);
      });
      made("title", {}, cell).textContent = `\u2068${rows[row]}\u2069 – \u2068${columns[column]}\u2069: cosine ${(cosine / 100).toFixed(2)}`;
      discs.push({ element: cell, at: [row, column] });
    }));
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = `Rows: ${compared}, columns: hypothesis. Colour: cosine. ` + (half
      ? `Disc: what is moved, on the left in ${names[0]}, on the right in ${names[1]}.`
      : "Disc: what is moved.");
    box.append(svg, note);
  };
  drawMap();
  if (box) box.closest("details").addEventListener("toggle", drawMap);

  const observer = new ResizeObserver(draw);
  observer.observe(weave);
  draw();
}

// The list of lines: which one is on screen, and the order.
const entries = [...document.querySelectorAll(".lines li")];
if (entries.length) {
  const at = new Map(entries.map((entry) => [entry.querySelector("a").hash.slice(1), entry.querySelector("a")]));
  const watcher = new IntersectionObserver((found) => {
    for (const { target, isIntersecting } of found) {
      if (!isIntersecting) continue;
      for (const link of at.values()) link.removeAttribute("aria-current");
      const link = at.get(target.id.replace("-source", ""));
      if (link) link.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  for (const article of document.querySelectorAll("article.explanation")) watcher.observe(article);
  const button = document.querySelector("[data-order]");
  button.hidden = false;
  button.addEventListener("click", () => {
    const sorted = button.classList.toggle("sorted");
    button.textContent = sorted ? "as in the file" : "lowest first";
    const order = sorted ? [...entries].sort((a, b) => a.dataset.value - b.dataset.value) : entries;
    document.querySelector(".lines").append(...order);
    for (const entry of order) {
      const { hash } = entry.querySelector("a");
      for (const article of document.querySelectorAll(`${hash}, ${hash}-source`)) {
        article.parentElement.insertBefore(article, document.querySelector("footer"));
      }
    }
  });
}
