/* A report's page: the step of a run changes in place (live.js); when a run is asked for or done, the page is made anew.
   The subject's row of a report is its newest run. Somebody who is filling in the form is only told. */
(function () {
  "use strict";
  const host = document.querySelector("[data-report]");
  if (!host) return;
  const FINAL = new Set(["SUCCEEDED", "FAILED"]);
  const form = host.querySelector("form[method=post]");
  let touched = false, told = "";
  form?.addEventListener("input", () => { touched = true; });

  function isNews(row) {
    if (row.id === host.dataset.run) return FINAL.has(row.state) && !FINAL.has(host.dataset.state);
    return row.requested_at_ms > Number(host.dataset.requestedAt || 0);
  }
  Tide.live.on(host.dataset.reportSubject, (rows) => {
    const row = rows[host.dataset.report];
    if (!row || !isNews(row)) return;
    if (!touched) { location.reload(); return; }
    const news = FINAL.has(row.state) ? "The report is done" : "A run has been asked for";
    if (told !== row.id + row.state && (FINAL.has(row.state) || !told)) Tide.say(news, "Reload the page to see it.");
    told = row.id + row.state;
  });
})();
