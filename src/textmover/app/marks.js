// Mark errors by taps, mouse and keys on the words and gaps of a text. The server checks and stores the marks.
(() => {
  "use strict";
  const find = (selector) => document.querySelector(selector);
  let text = null; // the element whose words are marked
  let units = []; // gap, word, gap, …, gap
  let marks = null;
  let first = null; // index of the first word of a new mark
  let chosen = null; // a mark or a suggestion
  let cursor = 1;
  let pressed = null;
  let said = "";
  let drawn = null;
  let stored = null; // state of the marks on the server, as far as known
  let sent = {}; // state that was sent last, and its sequence number
  let shown = []; // states that the server may hold if no other window has changed them

  const same = (one, other) => Boolean(one && other && one.start === other.start && one.end === other.end);
  const overlap = (one, other) => same(one, other) || (one.start < other.end && other.start < one.end);
  const open = () => marks.suggested.filter(
    (one) => !marks.rejected.some((other) => same(one, other)) && !marks.errors.some((other) => same(one, other.suggested)));
  const isWord = (number) => number % 2 === 1;
  const covers = (mark, number) => {
    const { from, to } = units[number];
    if (mark.start === mark.end) return !isWord(number) && from <= mark.start && mark.start <= to;
    return isWord(number) ? mark.start < to && from < mark.end : mark.start < from && to < mark.end;
  };
  const at = (number) => marks.errors.find((one) => covers(one, number)) ?? open().find((one) => covers(one, number));
  const suggested = (mark) => marks.suggested.includes(mark);
  const place = (number) => (number === 0 ? units[0].to : units[number].from); // position of missing words
  const wordsOf = (mark) => units.filter((_, number) => covers(mark, number)).map((one) => one.node.textContent).join("");
  const extent = (mark) => {
    const inside = units.map((_, number) => number).filter((number) => covers(mark, number));
    return [inside[0], inside[inside.length - 1]];
  };

  const draw = () => {
    const left = open();
    units.forEach((unit, number) => {
      const mark = at(number);
      const dashed = mark && suggested(mark);
      const range = first !== null && number === first;
      unit.node.className = [isWord(number) ? "tm-w" : "tm-g", mark ? `tm-${mark.severity} ${dashed ? "tm-dashed" : "tm-sure"}` : "",
        mark && mark.start === mark.end ? "tm-missing" : "", mark && mark === chosen ? "tm-chosen" : "", range ? "tm-first" : "",
        number === cursor && document.activeElement === text ? "tm-cursor" : ""].filter(Boolean).join(" ");
    });
    const section = text.closest(".tm-text");
    const missing = chosen && chosen.start === chosen.end;
    const words = chosen && (missing ? "words missing" : `“${wordsOf(chosen)}”`);
    section.querySelector(".tm-hint").textContent = said || (chosen
      ? `${suggested(chosen) ? `Suggested, ${chosen.label}` : chosen.severity}: ${words}`
      : first !== null ? "Now the last word; the same word again marks it alone."
      : "Tap the first and the last word of an error, or a gap where words are missing.");
    section.querySelector(".tm-tools").hidden = !chosen;
    const shown = chosen ? (suggested(chosen) ? ["accept", "reject"] : missing ? ["earlier", "later", "delete"]
      : ["before-more", "before-less", "after-less", "after-more", "delete"]) : [];
    for (const one of section.querySelectorAll(".tm-tools [data-act]")) one.hidden = !shown.includes(one.dataset.act);
    for (const one of section.querySelectorAll("[data-severity]")) one.setAttribute("aria-pressed", one.dataset.severity === chosen?.severity);
    const done = section.querySelector(".tm-done");
    const count = marks.errors.length;
    const counted = count ? `${count} error${count > 1 ? "s" : ""}` : "no errors";
    done.textContent = left.length ? `${left.length} suggestion${left.length > 1 ? "s" : ""} to decide`
      : marks.done ? `✓ Done: ${counted}` : count ? `Done: ${counted}` : "No errors";
    done.disabled = left.length > 0;
    done.setAttribute("aria-pressed", marks.done);
    said = "";
  };

  const save = () => {
    draw();
    window.textmoverSaving();
    find("#tm-mark").click();
  };
  const state = () => {
    const order = (one, other) => one.start - other.start || one.end - other.end;
    const plain = ({ start, end, severity, suggested: was }) => ({ start, end, severity, ...(was && { suggested: plain(was) }) });
    const [errors, rejected] = [marks.errors, marks.rejected].map((all) => all.map(plain).sort(order));
    return JSON.stringify({ errors, rejected, done: marks.done });
  };
  window.textmoverMarks = (key) => {
    sent = { marks: state() };
    sent.order = window.textmoverOrder(key, "marks", sent.marks);
    const given = JSON.stringify({ ...JSON.parse(sent.marks), shown: shown.map((one) => JSON.parse(one)) });
    shown = [...new Set([...shown, sent.marks])];
    return [given, sent.order];
  };
  window.textmoverMarked = () => (text?.isConnected ? state() : null);
  window.textmoverUnsaved = () => {
    if (!text?.isConnected || state() === stored) return [];
    const list = marks.errors.map((one) => (one.start === one.end ? `words missing (${one.severity})` : `“\u2068${wordsOf(one)}\u2069” (${one.severity})`));
    return [{ kind: "marks", text: state(), before: stored, words: list.join(", ") || "no errors" }];
  };
  window.textmoverRestore = (earlier) => {
    Object.assign(marks, JSON.parse(earlier));
    [first, chosen] = [null, null];
    save();
  };

  const refuse = (why) => {
    said = why;
    draw();
  };

  // Add a mark, or put it in the place of an earlier one. Suggestions that overlap it count as rejected.
  const put = (mark, before = null) => {
    const others = marks.errors.filter((one) => one !== before);
    if (others.some((one) => overlap(one, mark))) return refuse("These words are part of another error: change or delete that one.");
    marks.errors = [...others, mark];
    marks.rejected.push(...open().filter((one) => overlap(one, mark)).map(({ start, end, severity }) => ({ start, end, severity })));
    [first, chosen] = [null, mark];
    save();
  };

  const tap = (number) => {
    cursor = number;
    if (first !== null) {
      const last = isWord(number) ? number : number > first ? number - 1 : number + 1; // a gap next to the intended word
      const [low, high] = [Math.min(first, last), Math.max(first, last)];
      first = null;
      return put({ start: units[low].from, end: units[high].to, severity: "major" });
    }
    const mark = at(number);
    if (mark) chosen = mark === chosen ? null : mark;
    else if (isWord(number)) [first, chosen] = [number, null];
    else if (units.length > 1) return put({ start: place(number), end: place(number), severity: "major" });
    draw();
  };

  const accept = (as) => {
    const { start, end } = chosen;
    put({ start, end, severity: as, suggested: { start, end, severity: chosen.severity } });
  };

  const reject = (mark) => {
    marks.rejected.push({ start: mark.start, end: mark.end, severity: mark.severity });
    chosen = open()[0] ?? null;
    save();
  };

  const move = (start, end) => {
    const [low, high] = extent(chosen);
    if (chosen.start === chosen.end) {
      const wanted = low + 2 * (start + end);
      if (units[wanted]) put({ ...chosen, start: place(wanted), end: place(wanted) }, chosen);
      return;
    }
    const [from, to] = [low + 2 * start, high + 2 * end];
    if (units[from] && units[to] && from <= to) put({ ...chosen, start: units[from].from, end: units[to].to }, chosen);
  };

  const acts = {
    accept: () => chosen && suggested(chosen) && accept(chosen.severity),
    reject: () => chosen && suggested(chosen) && reject(chosen),
    "before-more": () => move(-1, 0), "before-less": () => move(1, 0), "after-less": () => move(0, -1), "after-more": () => move(0, 1),
    earlier: () => move(-1, 0), later: () => move(1, 0),
    delete: () => {
      if (!chosen || suggested(chosen)) return;
      marks.errors = marks.errors.filter((one) => one !== chosen);
      const was = chosen.suggested;
      chosen = null;
      if (was) marks.rejected.push(was);
      save();
    },
    done: () => {
      if (open().length) return;
      marks.done = !marks.done;
      [first, chosen] = [null, null];
      save();
    },
  };

  const grade = (wanted) => {
    if (chosen && suggested(chosen)) accept(wanted);
    else if (chosen) put({ ...chosen, severity: wanted }, chosen);
  };

  const numberOf = (node) => units.findIndex((one) => one.node === node?.closest?.(".tm-w, .tm-g"));

  addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-act], [data-severity]");
    const number = numberOf(event.target);
    if (button && text && button.closest(".tm-text") === text.closest(".tm-text")) {
      if (button.dataset.act) acts[button.dataset.act]();
      else grade(button.dataset.severity);
    } else if (number >= 0) tap(number);
  });
  addEventListener("mousedown", (event) => { // keep the focus, and do not select words as for copying
    if (event.target.closest?.(".tm-marked, .tm-tools, .tm-done")) event.preventDefault();
  });
  addEventListener("pointerdown", (event) => { pressed = event.pointerType === "mouse" ? numberOf(event.target) : null; });
  addEventListener("pointerup", (event) => { // dragging the mouse over words marks them
    const number = numberOf(event.target);
    if (pressed === null || pressed < 0 || number < 0 || number === pressed || !isWord(pressed)) return;
    first = pressed;
    tap(number);
  });

  const KEYS = { Enter: () => tap(cursor), " ": () => tap(cursor), Delete: acts.delete, Backspace: acts.delete, a: acts.accept, r: acts.reject,
    d: acts.done, 1: () => grade("minor"), 2: () => grade("major"), 3: () => grade("critical") };

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !text?.offsetParent) return;
    if (document.activeElement !== text) {
      if (event.key !== "e" || event.target.closest?.("input:not([type=radio]), textarea, select, [role=tab], [role=listbox]")) return;
      text.focus();
    } else if (event.key.startsWith("Arrow")) {
      const sign = (getComputedStyle(text).direction === "rtl" ? -1 : 1) * (event.key === "ArrowRight" ? 1 : -1);
      if (event.shiftKey && chosen && !suggested(chosen)) move(chosen.start === chosen.end ? sign : 0, chosen.start === chosen.end ? 0 : sign);
      else cursor = Math.min(Math.max(/Up|Down/.test(event.key) ? cursor : cursor + sign, 0), units.length - 1);
    } else if (event.key === "Escape") {
      if (first === null && !chosen) text.blur();
      [first, chosen] = [null, null];
    } else if (KEYS[event.key]) KEYS[event.key]();
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
    draw();
  }, true);
  addEventListener("focusin", () => text?.isConnected && draw());
  addEventListener("focusout", () => setTimeout(() => text?.isConnected && draw()));

  const begin = () => new MutationObserver(() => {
    if (sent.order && find("#tm-status .tm-said")?.dataset.saved === sent.order) [stored, shown] = [sent.marks, [sent.marks]];
    const found = find("#tm-card .tm-marked");
    const at = find("#tm-card .tm-card")?.dataset.at;
    if (!found || at === drawn) return; // Gradio updates elements in place
    drawn = at;
    text = found;
    units = [...text.querySelectorAll(".tm-w, .tm-g")].map((node) => ({ node, from: Number(node.dataset.from), to: Number(node.dataset.to) }));
    marks = JSON.parse(text.dataset.marks);
    [stored, sent] = [state(), {}];
    shown = [stored];
    [first, chosen, cursor] = [null, null, Math.min(1, units.length - 1)];
    draw();
  }).observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-at", "data-saved"] });
  if (document.body) begin();
  else addEventListener("DOMContentLoaded", begin);
})();
