// Client side of the page: keyboard, highlighting of unrated criteria, and checks that the server is running.
(() => {
  "use strict";
  const find = (selector) => document.querySelector(selector);
  const criteria = () => [...document.querySelectorAll(".tm-criterion")];
  let active = 0;
  let waiting = false; // for the next text; keys pressed meanwhile are queued
  const kept = [];
  let shownKey = null;
  let drawn = null;
  let asked = 0; // time of the last request
  let run = null;
  let reloads = false; // by itself
  let failing = false; // whether a request has failed
  let failed = null;
  let typed = null; // field of a comment with unsaved changes
  let given = ""; // its text when it was entered or last sent

  // Return the window and sequence number of an action. Gradio sends one input up to three times, with one number.
  const name = Math.random().toString(36).slice(2);
  let sent = 0;
  let acts = 0;
  let last = null;
  window.textmoverOrder = (...what) => {
    const act = JSON.stringify([acts, ...what]);
    if (act !== last) sent += 1;
    last = act;
    return `${name}:${sent}`;
  };

  // Send one request at a time, so that answers come in the order of actions. The data is read before the request waits.
  const ask = window.fetch.bind(window);
  let before = Promise.resolve();
  window.fetch = (...asked) => {
    if (!String(asked[0]?.url ?? asked[0]).includes("/run/predict")) return ask(...asked);
    const answer = before.then(() => ask(...asked));
    before = answer.then((found) => found.clone().arrayBuffer()).catch(() => { failing = true; }); // Gradio sends no more
    return answer;
  };

  // --- the text that is shown ---------------------------------------------------------------------------------------

  const mark = () => {
    criteria().forEach((one, place) => {
      one.classList.toggle("tm-active", place === active);
      one.setAttribute("aria-label", one.querySelector('[data-testid="block-info"]')?.textContent.trim() ?? "");
    });
  };

  const activate = (place) => {
    active = Math.min(Math.max(place, 0), criteria().length - 1);
    mark();
  };

  const told = () => {
    const said = find("#tm-status .tm-said");
    const key = find("#tm-card .tm-card")?.dataset.key;
    if (!said || said.dataset.key !== key || said.dataset.rated === undefined) return;
    const done = said.dataset.rated.split(" ");
    criteria().forEach((one, place) => one.classList.toggle("tm-open", done[place] === "0"));
  };

  const address = () => {
    const bar = find("#tm-bar .tm-bar");
    if (!bar) return;
    const here = new URL(location.href);
    here.searchParams.set("annotator", bar.dataset.annotator);
    here.searchParams.set("items", bar.dataset.items);
    here.searchParams.delete("text");
    if (here.href !== location.href) history.replaceState(null, "", here);
  };

  // Answers may arrive out of order: keep the newest element, and do not replace one about the displayed text by one about
  // another text.
  const newest = {};
  const keepNewest = (selector, key) => {
    const found = find(selector);
    if (!found?.dataset.at) return;
    const before = newest[selector];
    const elsewhere = found.dataset.key !== key && before?.key === key;
    if (before && (before.at > found.dataset.at || elsewhere)) found.outerHTML = before.html;
    else if (before?.at !== found.dataset.at) newest[selector] = { at: found.dataset.at, key: found.dataset.key, html: found.outerHTML };
  };

  const changed = () => {
    const card = find("#tm-card .tm-card");
    keepNewest("#tm-status .tm-said", card?.dataset.key);
    keepNewest("#tm-bar .tm-bar"); // does not belong to a text
    const problem = find("#tm-status [data-failed]")?.dataset.failed;
    if (problem && problem !== failed) { // the action failed, so no answer follows
      failed = problem;
      waiting = false;
      kept.length = 0;
    }
    told();
    address();
    if (!card || card.dataset.at === drawn) return;
    drawn = card.dataset.at; // another text, or the same one at either end
    if (card.dataset.key !== shownKey) activate(0);
    shownKey = card.dataset.key;
    setTimeout(arrived, 30); // after the rest of the page has been updated
    showKept([]);
    later();
  };

  const arrived = () => {
    waiting = false;
    while (kept.length && !waiting) press(kept.shift(), true);
  };

  // --- keys ---------------------------------------------------------------------------------------------------------

  const rate = (digit, queued) => {
    const one = criteria()[active];
    if (!one) return;
    const boxes = [...one.querySelectorAll('input[type="radio"]')];
    if (boxes.length) {
      const wanted = boxes.find((box) => box.closest("label").textContent.trim().startsWith(digit));
      if (!wanted) return;
      if (!wanted.checked) { // otherwise it has been sent already, and no answer would follow
        wanted.click();
        saving();
      }
      activate(active + 1);
      return;
    }
    const number = one.querySelector('input[type="number"]');
    if (queued) return type(number, digit);
    number.focus();
    number.select(); // the typed digit replaces the selection
  };

  const type = (number, digit) => { // insert a queued digit, which the browser inserts no more
    const text = document.activeElement === number ? number.value + digit : digit;
    number.focus();
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(number, text);
    number.dispatchEvent(new Event("input", { bubbles: true }));
    saving();
  };

  const leave = (number) => {
    number.blur();
    activate(criteria().findIndex((one) => one.contains(number)) + 1);
  };

  const press = (key, queued = false) => {
    if (/^[0-9]$/.test(key)) rate(key, queued);
    else if (key === "Enter") { if (document.activeElement?.matches?.(SLIDER)) leave(document.activeElement); }
    else if (key === "ArrowRight") find("#tm-next")?.click();
    else if (key === "ArrowLeft") find("#tm-previous")?.click();
    else if (key === "ArrowDown") activate(active + 1);
    else if (key === "ArrowUp") activate(active - 1);
    else if (key === "u") find("#tm-unrated")?.click();
  };

  const KEYS = /^([0-9]|u|Arrow(Left|Right|Up|Down))$/;
  const SLIDER = '.tm-criterion input[type="number"]';
  const STEPS = "#tm-next, #tm-previous, #tm-unrated";

  const rating = () => {
    const work = find("#tm-work");
    return work && work.offsetParent !== null && find("#tm-card .tm-card");
  };

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !rating()) return;
    const at = event.target;
    if (at.matches?.(SLIDER) && event.key === "Enter") {
      event.preventDefault();
      leave(at);
      return;
    }
    const typing = at.closest?.("input:not([type=radio]), textarea, select, [contenteditable=true], [role=tab], [role=listbox]");
    const queues = waiting && event.key === "Enter" && kept.length; // behind the digits of a slider
    if (typing || !(queues || KEYS.test(event.key))) return;
    const slides = !waiting && /^[0-9]$/.test(event.key) && criteria()[active]?.querySelector('input[type="number"]');
    if (!slides) event.preventDefault();
    if (waiting) kept.push(event.key);
    else press(event.key);
  }, true);

  addEventListener("click", (event) => {
    const one = event.target.closest?.(".tm-criterion");
    if (one) activate(criteria().indexOf(one));
    if (event.target.closest?.(STEPS)) {
      waiting = true;
      asked = Date.now();
    }
  }, true);
  // A slider moved by mouse loses the focus, so that the page gets the keys; one reached by Tab keeps the arrow keys.
  addEventListener("pointerup", (event) => {
    if (event.target.matches?.('.tm-criterion input[type="range"]')) setTimeout(() => event.target.blur());
  }, true);
  addEventListener("focusin", (event) => {
    const one = event.target.closest?.(".tm-criterion");
    if (one) activate(criteria().indexOf(one));
  });

  // --- the server ---------------------------------------------------------------------------------------------------

  const tell = (id, words) => {
    const said = find("#tm-status .tm-said");
    if (said) said.innerHTML = `<p class="tm-notice tm-plain" id="${id}">${words}</p>`;
  };
  const saving = () => {
    acts += 1;
    tell("tm-saving", "Saving …");
    asked = Date.now();
  };
  addEventListener("input", (event) => {
    if (!event.isTrusted) return;
    if (event.target.closest?.(".tm-criterion")) saving();
    if (event.target.closest?.("#tm-comment")) {
      typed = event.target; // sent when it is left
      tell("tm-unsaved", "The comment is saved when you leave its field.");
    }
  }, true);
  const leaveComment = () => {
    if (!typed) return;
    const same = typed.value === given; // then no answer follows
    given = typed.value;
    typed = null;
    if (same) tell("tm-unsaved", "");
    else saving();
  };
  addEventListener("focusin", (event) => { if (event.target.closest?.("#tm-comment")) given = event.target.value; });
  addEventListener("focusout", leaveComment, true);
  addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target === typed) leaveComment();
  }, true);

  window.textmoverSaving = saving;

  // --- what is not saved when the page is left ----------------------------------------------------------------------

  const field = (name) => find(`#tm-${name} :is(textarea, input)`);
  const place = () => {
    const bar = find("#tm-bar .tm-bar");
    return `textmover ${JSON.stringify([bar.dataset.items, bar.dataset.annotator, find("#tm-card .tm-card").dataset.key])}`;
  };
  const stored = () => JSON.parse(sessionStorage.getItem(place()) ?? "[]");
  const store = (all) => (all.length ? sessionStorage.setItem(place(), JSON.stringify(all)) : sessionStorage.removeItem(place()));

  const unsaved = () => {
    if (!find("#tm-card .tm-card")) return [];
    const [text, before, seen] = ["comment", "shown", "seen"].map((name) => field(name).value);
    const comment = text === before ? [] : [{ kind: "comment", text, before }];
    return [...comment, ...window.textmoverUnsaved()].map((one) => ({ ...one, seen }));
  };

  let due = 0;
  const later = () => { // once for the text shown last: a second call would replace a button under the pointer
    clearTimeout(due);
    due = setTimeout(restore, 300);
  };

  // Save what was not saved when the page was left, unless something else has been saved in its place.
  const restore = () => {
    if (!find("#tm-card .tm-card")) return;
    if (field("key").value !== shownKey) {
      later(); // the rest of the page is not updated yet
      return;
    }
    const left = stored().filter((one) => {
      const now = one.kind === "comment" ? field("comment").value : window.textmoverMarked();
      if (one.text === now) return false;
      if (one.before !== now || one.seen !== field("seen").value) return true;
      if (one.kind === "marks") window.textmoverRestore(one.text);
      else sendComment(one.text);
      return false;
    });
    store(left);
    showKept(left);
  };

  const sendComment = (text) => {
    const box = field("comment");
    Object.getOwnPropertyDescriptor(Object.getPrototypeOf(box), "value").set.call(box, text);
    box.dispatchEvent(new Event("input", { bubbles: true }));
    saving();
    setTimeout(() => { if (document.activeElement !== box) box.dispatchEvent(new FocusEvent("blur")); }, 100);
  };

  const showKept = (all) => {
    const banner = find("#tm-kept");
    if (!banner) return;
    banner.hidden = !all.length;
    banner.replaceChildren(...all.map((one) => {
      const line = document.createElement("p");
      const why = one.seen === field("seen").value ? `${one.kind === "marks" ? "other marks were" : "another comment was"} saved` : "the text has changed";
      const words = Object.assign(document.createElement("bdi"), { textContent: one.text });
      line.append(`Not saved, since ${why} meanwhile: your ${one.kind} `, ...(one.kind === "marks" ? [one.words] : ["“", words, "”"]));
      return line;
    }));
    const discard = Object.assign(document.createElement("button"), { type: "button", textContent: "Discard" });
    discard.addEventListener("click", () => {
      store([]);
      showKept([]);
    });
    if (all.length) banner.append(discard);
  };

  addEventListener("beforeunload", (event) => { // the browser asks whether to leave
    if (reloads || !(find("#tm-saving") || unsaved().length)) return;
    event.preventDefault();
    event.returnValue = true; // for earlier browsers
  });
  addEventListener("pagehide", () => {
    const all = unsaved();
    const same = (one, other) => one.kind === other.kind && one.text === other.text;
    if (all.length) store([...stored().filter((old) => !all.some((one) => same(one, old))), ...all]);
  });
  addEventListener("pageshow", (event) => event.persisted && later());

  const lost = (gone) => {
    const banner = find("#tm-lost");
    if (!banner || banner.hidden === !gone) return;
    banner.hidden = !gone;
    waiting = false;
    kept.length = 0;
    banner.textContent = gone
      ? "The server does not answer. What was shown as saved is saved. Start it again: this page goes on, and saves comments and marks made meanwhile."
      : "";
  };

  const again = () => { // reload at the displayed text
    reloads = true;
    const here = new URL(location.href);
    if (shownKey) here.searchParams.set("text", shownKey);
    if (here.href === location.href) location.reload();
    else location.replace(here);
  };

  const watch = async () => {
    try {
      const answer = await fetch("/alive", { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const found = (await answer.json()).run;
      lost(false);
      if (!typed) { // reloading would lose a comment that is being written
        if (failing || (run !== null && found !== run)) again(); // after a failure or a restart, show the saved state
        run = found;
        // The server runs, but its answer was lost: show the saved state.
        if ((waiting || find("#tm-saving")) && Date.now() - asked > 15000) again();
      }
    } catch {
      lost(true);
    }
    setTimeout(watch, document.hidden ? 10000 : 2000);
  };

  const begin = () => {
    new MutationObserver(changed).observe(document.body, {
      childList: true, subtree: true, attributes: true, attributeFilter: ["data-at", "data-key", "data-annotator", "data-failed"],
    });
    watch();
  };
  if (document.body) begin();
  else addEventListener("DOMContentLoaded", begin);
})();
