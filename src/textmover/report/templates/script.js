"use strict";
// Everything here is a convenience: without it tables keep their order, and links between words are still written out.

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    const value = cell.dataset.value;
    return value === undefined ? cell.textContent.trim() : value === "" ? NaN : Number(value);
  };
  heads.forEach((head, column) => {
    if (head.classList.contains("picture")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const first = column === 0 ? "ascending" : "descending";
      const other = column === 0 ? "descending" : "ascending";
      const order = head.getAttribute("aria-sort") === first ? other : first;
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...body.rows].map((row) => [key(row, column), row]);
      rows.sort(([a], [b]) => {
        if (typeof a === "string") return sign * a.localeCompare(b);
        if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
        return sign * (a - b);
      });
      body.append(...rows.map(([, row]) => row));
    });
  });
}

for (const pair of document.querySelectorAll("[data-aligned]")) {
  const words = { h: [], r: [] };
  for (const side of pair.querySelectorAll(".side")) words[side.dataset.side] = [...side.querySelectorAll(".w")];
  let pinned = null;
  const clear = () => {
    pair.classList.remove("lit");
    for (const word of pair.querySelectorAll(".from, .to")) word.classList.remove("from", "to");
  };
  const light = (word) => {
    clear();
    if (!word || !word.dataset.l) return;
    pair.classList.add("lit");
    word.classList.add("from");
    const others = words[word.closest(".side").dataset.side === "h" ? "r" : "h"];
    for (const link of word.dataset.l.split(" ")) {
      const [place, share] = link.split(":").map(Number);
      if (!others[place]) continue;
      others[place].classList.add("to");
      others[place].style.setProperty("--k", share / 100);
    }
  };
  const wordOf = (event) => (event.target instanceof Element ? event.target.closest(".w") : null);
  pair.addEventListener("pointerover", (event) => event.pointerType === "mouse" && light(wordOf(event) || pinned));
  pair.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && light(pinned));
  pair.addEventListener("click", (event) => {
    const word = wordOf(event);
    pinned = word === pinned ? null : word;
    light(pinned);
  });
  pair.addEventListener("focusin", (event) => light(wordOf(event)));
  pair.addEventListener("focusout", () => light(pinned));
  // Each text is one stop of the Tab key; arrows move within it, in the direction in which it is read.
  for (const side of Object.values(words)) {
    side.forEach((word, place) => {
      word.tabIndex = place === 0 ? 0 : -1;
      word.addEventListener("keydown", (event) => {
        const turned = getComputedStyle(word.parentElement).direction === "rtl" ? -1 : 1;
        const step = { ArrowRight: turned, ArrowDown: 1, ArrowLeft: -turned, ArrowUp: -1 }[event.key];
        if (event.key === "Escape") { pinned = null; clear(); }
        if (!step || !side[place + step]) return;
        event.preventDefault();
        word.tabIndex = -1;
        side[place + step].tabIndex = 0;
        side[place + step].focus();
      });
    });
  }
}
