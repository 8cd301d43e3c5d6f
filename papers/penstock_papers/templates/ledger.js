"use strict";
(() => {
  const tools = document.getElementById("tools");
  const words = document.getElementById("find");
  const said = tools.querySelector("output");
  const boxes = [...tools.querySelectorAll("input[type=checkbox]")];
  const chips = new Map([...document.querySelectorAll(".chip")].map((a) => [a.hash.slice(1), a]));
  const rows = [...document.querySelectorAll(".row")].map((row) => ({
    row,
    text: row.textContent.toLowerCase(),
    verdicts: new Set(row.dataset.verdicts.split(" ")),
  }));
  const off = (element, hidden) => element.toggleAttribute("data-off", hidden);

  function filter() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdicts = boxes.filter((b) => b.checked).map((b) => b.value);
    let shown = 0;
    for (const one of rows) {
      const hit = wanted.every((w) => one.text.includes(w)) && verdicts.some((v) => one.verdicts.has(v));
      off(one.row, !hit);
      chips.get(one.row.id)?.classList.toggle("off", !hit);
      shown += hit;
    }
    for (const paper of document.querySelectorAll(".paper")) {
      off(paper, !paper.querySelector(".row:not([data-off])"));
    }
    said.textContent = shown === rows.length ? "" : `${shown} of ${rows.length} rows`;
  }

  // A link to what the search hides shows it.
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target?.closest("[data-off]")) {
      words.value = "";
      boxes.forEach((b) => (b.checked = true));
      filter();
      target.scrollIntoView();
    }
  }

  tools.hidden = false;
  words.addEventListener("input", filter);
  boxes.forEach((b) => b.addEventListener("change", filter));
  addEventListener("hashchange", reveal);
  addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== words && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      words.focus();
    } else if (event.key === "Escape" && document.activeElement === words) {
      words.value = "";
      filter();
    }
  });
  filter();
})();
