/* Windows in the zone of this browser, where the server did not know it yet. */
(function () {
  "use strict";
  const minute = (ms) => `${Tide.day(ms)} ${Tide.clock(ms).slice(0, 5)}`;
  const sameDay = (a, b) => new Date(a).toDateString() === new Date(b).toDateString();
  const WINDOWS = {
    hour: ({ at }) => minute(Number(at)),
    period: ({ at, to }) => {
      const [from, until] = [Number(at), Number(to)];
      return `${minute(from)} – ${sameDay(from, until) ? Tide.clock(until).slice(0, 5) : minute(until)}`;
    },
  };
  for (const element of document.querySelectorAll('time[data-as="hour"], time[data-as="period"]')) {
    const text = WINDOWS[element.dataset.as](element.dataset);
    if (
      new Date(Number(element.dataset.at)).getFullYear() === new Date(Tide.now()).getFullYear() &&
      element.textContent !== text
    )
      element.textContent = text;
  }
})();
/* A report's page: the step of a run changes in place (live.js); when a run is asked for or done, the page is made
   anew. The subject's row of a report is its newest run. A page with a form being filled in only shows a note. */
(function () {
  "use strict";
  const host = document.querySelector("[data-report]");
  if (!host) return;
  const FINAL = new Set(["SUCCEEDED", "FAILED"]);
  const form = host.querySelector("form[method=post]");
  let touched = false,
    told = "";
  form?.addEventListener("input", () => {
    touched = true;
  });

  function isNews(row) {
    if (row.id === host.dataset.run) return FINAL.has(row.state) && !FINAL.has(host.dataset.state);
    return row.requested_at_ms > Number(host.dataset.requestedAt || 0);
  }
  Tide.live.on(host.dataset.reportSubject, (rows) => {
    const row = rows[host.dataset.report];
    if (!row || !isNews(row)) return;
    if (!touched) {
      location.reload();
      return;
    }
    const news = FINAL.has(row.state) ? gettext("The report is done") : gettext("A run was requested");
    if (told !== row.id + row.state && (FINAL.has(row.state) || !told))
      Tide.say(news, gettext("Reload the page to see it."));
    told = row.id + row.state;
  });
})();
