/* Offset change: one box per topic and one per broker switch all their queues; what the form as it stands would mean
   is shown beside it; the time of "as it was" is picked from what is recorded. */
(function () {
  "use strict";
  const scopes = [...document.querySelectorAll("[data-scope]")].filter((scope) => scope.querySelector("[data-all]"));
  function showScopes() {
    for (const scope of scopes) {
      const all = scope.querySelector("[data-all]"),
        boxes = [...scope.querySelectorAll("input[name=queue]")],
        chosen = boxes.filter((box) => box.checked).length;
      all.checked = chosen === boxes.length;
      all.indeterminate = chosen > 0 && chosen < boxes.length;
    }
  }
  for (const scope of scopes)
    scope.addEventListener("change", (event) => {
      if (event.target === scope.querySelector("[data-all]"))
        for (const box of scope.querySelectorAll("input[name=queue]")) box.checked = event.target.checked;
      showScopes();
    });
  showScopes();

  /* A chosen target whose value is still empty takes the focus, so that the hand stays on the keyboard. */
  const form = document.getElementById("change"),
    DAY = 86400000,
    POINTS = 600;
  const chosen = () => form.querySelector("input[name=target]:checked")?.value;
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.target.name !== "target") return;
    const value = form.querySelector(`.for-${chosen()} .input, .for-${chosen()} .select`);
    if (value && !value.value) {
      event.preventDefault();
      value.focus();
    }
  });

  /* ---- a typed time, as ISO 8601 in this browser's zone and in UTC ---- */
  for (const input of form.querySelectorAll("input[type=datetime-local]")) {
    const words = document.createElement("p");
    words.className = "help mono";
    input.after(words);
    const showIso = () => {
      const at = new Date(input.value);
      const isTime = !Number.isNaN(at.getTime());
      const zone = isTime ? Tide.zoneOffset(at.getTime()) : "";
      const utc = isTime ? at.toISOString().replace(".000", "") : "";
      words.textContent = zone && zone !== "UTC" ? `${local(at.getTime())} ${zone} = ${utc}` : utc;
    };
    input.addEventListener("input", showIso);
    showIso();
  }

  /* ---- the estimate: asked for again when the form has rested ---- */
  const estimate = form.querySelector("[data-estimate]"),
    steps = document.querySelector("[data-step='1']");
  const REST = 250;
  let asked = 0,
    timer = 0;
  async function showEstimate() {
    const number = ++asked,
      body = new FormData(form);
    body.set("part", "estimate");
    const answer = await fetch(location.pathname, { method: "POST", body, headers: { Accept: "text/html" } }).catch(
      () => null,
    );
    // an answer that another choice has overtaken is dropped
    if (number !== asked || !answer?.ok || answer.redirected) return;
    estimate.innerHTML = await answer.text();
    Tide.tell(estimate);
  }
  function rested() {
    const queues = form.querySelectorAll("input[name=queue]:checked").length;
    if (steps && queues) {
      steps.textContent = Tide.text(ngettext("%(number)s queue", "%(number)s queues", queues), {
        number: Tide.count(queues),
      });
    }
    clearTimeout(timer);
    if (chosen()) timer = setTimeout(showEstimate, REST);
  }
  form.addEventListener("change", rested);
  form.addEventListener("input", rested);
  if (chosen()) showEstimate();

  /* ---- the chart to pick a time from: asked for when it is first needed ---- */
  const host = form.querySelector("[data-pick]");
  const pad = (n) => String(n).padStart(2, "0");
  function local(ms) {
    // what datetime-local takes: this browser's time
    const at = new Date(ms);
    const date = [at.getFullYear(), pad(at.getMonth() + 1), pad(at.getDate())].join("-");
    return `${date}T${[at.getHours(), at.getMinutes(), at.getSeconds()].map(pad).join(":")}`;
  }
  let isAsked = false;
  async function showHistory() {
    if (isAsked || !host || chosen() !== "as_of") return;
    isAsked = true;
    const now = Math.round(Tide.now()),
      input = document.getElementById(host.dataset.pick);
    const answer = await fetch(`${host.dataset.history}?from_ms=${now - DAY}&to_ms=${now}&points=${POINTS}`).catch(
      () => null,
    );
    if (!answer?.ok) return; // the time can be typed without it
    const history = await answer.json();
    if (history.times.length < 2) return;
    host.hidden = false;
    const series = (label, swatch, tone, fill, values, bounds) => ({ label, swatch, tone, fill, values, bounds });
    const data = {
      times: history.times,
      picked: Date.parse(input.value) || undefined,
      pick: (t) => {
        input.value = local(t + 999);
        input.dispatchEvent(new Event("input", { bubbles: true }));
      }, // the field knows whole seconds: the one at or after the reading
      panels: [
        {
          title: gettext("Time lag, worst queue: click, or use arrow keys and Enter, to choose a time"),
          kind: "duration",
          format: Tide.duration,
          series: [
            series(
              gettext("time lag"),
              "c1",
              "chart-1",
              "chart-fill",
              history.time_lag_ms,
              history.time_lag_lower_bound,
            ),
          ],
        },
        {
          title: gettext("Lag, messages"),
          kind: "count",
          unit: gettext("msgs"),
          format: (v, full) => (full ? Tide.count(v) : Tide.compact(v)),
          series: [series(gettext("lag"), "c2", "chart-2", "chart-fill-2", history.lag, history.lower_bound)],
        },
      ],
    };
    const plot = Tide.timeSeries(host.querySelector("canvas"), data);
    input.addEventListener("input", () => {
      data.picked = Date.parse(input.value) || undefined;
      plot.paint();
    });
  }
  form.addEventListener("change", showHistory);
  showHistory();
})();
