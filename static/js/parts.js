/* Parts of a page that the server renders again when their subject changes: data-part is the address, data-part-subject
   the subject, data-part-every the least time between two (ms). A part is left alone while a hand is on it. Forms with
   data-quiet are sent without leaving the page. */
(function () {
  "use strict";
  const EVERY = 500;

  function keep(host) {
    const every = Number(host.dataset.partEvery || EVERY);
    let wanted = false, busy = false, last = 0, timer = 0;

    async function refresh() {
      wanted = true;
      if (busy || timer) return;
      const wait = Math.max(last + every - Date.now(), inHand() ? EVERY : 0);
      if (wait > 0) { timer = setTimeout(() => { timer = 0; refresh(); }, wait); return; }
      wanted = false;
      busy = true;
      last = Date.now();
      try {
        const answer = await fetch(host.dataset.part, { headers: { Accept: "text/html" } });
        if (answer.ok && !answer.redirected) swap(await answer.text());
      } catch { /* the socket tells of the next change */ }
      busy = false;
      if (wanted) refresh();
    }
    function inHand() {
      const selection = getSelection();
      return host.querySelector("input:active, details[open]") || (!selection.isCollapsed && host.contains(selection.anchorNode));
    }
    function swap(html) {
      const focused = host.contains(document.activeElement) ? document.activeElement.id : "";
      host.innerHTML = html;
      Tide.tell(host);
      Tide.sparklines(host);
      if (focused) (document.getElementById(focused) || host.querySelector(".actions .btn"))?.focus();
    }
    let isFresh = Boolean(host.dataset.partEvery); // the page was just made: the subject's present value is in it
    Tide.live.on(host.dataset.partSubject, (rows, message) => {
      if (isFresh && message.full) { isFresh = false; return; }
      refresh();
    });
    return refresh;
  }

  /* An empty list before the first round: the first figures make the page anew. */
  for (const host of document.querySelectorAll("[data-reload-on]")) Tide.live.on(host.dataset.reloadOn, (rows) => { if (rows.round) location.reload(); });

  const parts = new Map([...document.querySelectorAll("[data-part]")].map((host) => [host, keep(host)]));
  document.addEventListener("submit", async (event) => {
    const form = event.target, refresh = parts.get(form.closest("[data-part]"));
    if (!form.matches("form[data-quiet]") || !refresh) return;
    event.preventDefault();
    const answer = await fetch(form.action, { method: "POST", body: new FormData(form), redirect: "manual" }).catch(() => null);
    if (!answer || (answer.type !== "opaqueredirect" && !answer.ok)) { Tide.say("That did not reach the console", "Reload the page and try again."); return; }
    refresh();
  }, true);
})();
