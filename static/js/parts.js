/* Parts of a page that the server renders again when their subject changes: data-part is the address,
   data-part-subject the subject, data-part-every the least time between two (ms). A part is left alone while a
   hand is on it. data-part-silence inside of a part: it is fetched again after so many ms without news, for what
   happens where no message is sent (a worker that died). Forms with data-quiet are sent without leaving the page.
   A list with a search box with data-follow changes in place; data-renews: also behind rounds, always or while it
   is empty. So does a card with data-turns, by the heads of its table and its pager. A chart of history is drawn
   again with what its data-history answers. A <template data-for> inside of a part takes the place of what that
   element holds; inside of a card with data-turns, all of the card is asked for where the two differ. */
(function () {
  "use strict";
  const EVERY = 500;
  const STILL = { preventScroll: true };

  /* The keyboard stays where it was: on what has the same name, column or address in the new part. */
  function where({ id, rel, parentElement, attributes: { href } }) {
    const column = parentElement.dataset.column;
    if (id) return `#${CSS.escape(id)}`;
    if (column) return `th[data-column="${CSS.escape(column)}"] a`;
    return rel ? `.pager a[rel=${rel}]` : href && `a[href="${CSS.escape(href.value)}"]`;
  }

  function keep(host) {
    const every = Number(host.dataset.partEvery || EVERY);
    let wanted = false,
      busy = false,
      last = Date.now() - every,
      timer = 0;

    async function refresh() {
      wanted = true;
      if (busy || timer) return;
      const wait = Math.max(last + every - Date.now(), inHand() ? EVERY : 0);
      if (wait > 0) {
        timer = setTimeout(() => {
          timer = 0;
          refresh();
        }, wait);
        return;
      }
      wanted = false;
      busy = true;
      last = Date.now();
      try {
        const address = host.dataset.part,
          answer = await fetch(address, { headers: { Accept: "text/html", ...Tide.BY_TIMER } }),
          html = answer.ok && !answer.redirected && (await answer.text());
        // a card of the part that was sorted meanwhile has changed its address
        if (html && address === host.dataset.part) swap(html);
      } catch {
        /* the socket tells of the next change */
      }
      busy = false;
      if (wanted) refresh();
    }
    function inHand() {
      const selection = getSelection();
      return (
        host.querySelector("input:active, details[open]") ||
        (!selection.isCollapsed && host.contains(selection.anchorNode))
      );
    }
    function swap(html) {
      const focused = host.contains(document.activeElement) && where(document.activeElement);
      const stood = Tide.stood(host);
      Tide.live.detach(host);
      host.innerHTML = html;
      for (const part of host.querySelectorAll("template[data-for]")) {
        const place = document.getElementById(part.dataset.for),
          card = place?.closest("[data-turns]");
        if (card) renewCard(card, place.textContent.trim() !== part.content.textContent.trim());
        else place?.replaceChildren(part.content);
        if (place) Tide.tell(place);
      }
      Tide.live.attach(host);
      Tide.tell(host);
      Tide.fit(host);
      Tide.sparklines(host);
      stood(host);
      if (focused) (document.querySelector(focused) || host.querySelector(".actions .btn"))?.focus(STILL);
    }
    setInterval(() => {
      const silence = Number(host.querySelector("[data-part-silence]")?.dataset.partSilence);
      if (silence && !document.hidden && Date.now() - last >= silence) refresh();
    }, EVERY);
    let isFresh = Boolean(host.dataset.partEvery); // the page was just made: the subject's present value is in it
    Tide.live.on(host.dataset.partSubject, (rows, message) => {
      if (isFresh && message.full) {
        isFresh = false;
        return;
      }
      refresh();
    });
    return refresh;
  }

  /* ---- lists change in place: the page is asked for again, and everything after the search box takes its place; while
     one types, and by the heads of columns, chips and the pager ---- */
  const TYPED_AFTER = 150; // ms without a key: a word costs the console one or two pages, not one a letter
  const TURNS = "thead a, .pager a:not([download]), a.chip";
  const RENEWED_EVERY = 10000; // ms: what is shown is a page, not its changes
  const isPlain = (event) =>
    !(event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  /* A long table comes in stretches of rows, each in a frame of its own, so that no key or click waits for all of it:
     reading a page, placing it and painting it are tasks of their own for the same reason. */
  const STRETCH = 25;
  const nextTask = () => new Promise((done) => setTimeout(done)),
    frame = () => new Promise(requestAnimationFrame),
    painted = () => frame().then(nextTask);
  async function read(address, headers) {
    const answer = await fetch(address, { headers: { Accept: "text/html", ...headers } }).catch(() => null);
    if (!answer?.ok || answer.redirected) return null;
    const made = new DOMParser().parseFromString(await answer.text(), "text/html");
    await nextTask();
    return made;
  }
  /* Take the rows after the first stretch out of a part that is not shown yet: [their body, a stretch] each. */
  function holdBack(part) {
    const held = [];
    for (const body of part.querySelectorAll("[data-rows]"))
      for (let rows = [...body.rows].slice(STRETCH); rows.length; rows = rows.slice(STRETCH)) {
        const stretch = document.createDocumentFragment();
        stretch.append(...rows.slice(0, STRETCH));
        held.push([body, stretch]);
      }
    return held;
  }
  function dress(part) {
    Tide.tell(part);
    Tide.sparklines(part);
  }
  /* Begin a part that was just placed, and place the rows held back, for which there is room until then; not where
     another has taken its place meanwhile. */
  async function begin(part, seqs, held = [], height = 0) {
    part.style.minHeight = held.length ? `${height}px` : "";
    dress(part);
    Tide.fit(part);
    for (const [body, stretch] of held) {
      await painted();
      if (!body.isConnected) return;
      dress(stretch);
      body.append(stretch);
    }
    if (held.length) Tide.fit(part);
    part.style.minHeight = "";
    Tide.live.attach(part, seqs);
  }
  /* Other rows are read from the first one on: below the heads, which stay under the pointer. */
  function showFirstRow(part) {
    const body = part.querySelector("[data-rows]");
    if (!body) return;
    const bottomOf = (one) => one?.getBoundingClientRect().bottom ?? 0,
      edge = Math.max(
        bottomOf(document.querySelector(".topbar")),
        bottomOf(body.closest("table").tHead?.rows[0].cells[0]),
      );
    scrollBy(0, Math.min(0, body.getBoundingClientRect().top - edge));
  }
  function follow(box) {
    const form = box.form;
    let timer = 0,
      asked = 0,
      shownAt = Date.now();
    function search() {
      timer = 0;
      const query = new URLSearchParams(new FormData(form));
      if (!box.value.trim()) query.delete(box.name);
      const address = `${location.pathname}${query.size ? "?" + query : ""}`;
      return show(address, { kept: "replaceState", otherwise: () => form.requestSubmit() });
    }
    /* Show the list at an address; whatever is wrong, the page itself says it. */
    async function show(address, { kept, headers, otherwise = () => location.assign(address) }) {
      const mine = ++asked,
        seqs = Tide.live.seqs();
      shownAt = Date.now();
      form.setAttribute("aria-busy", "true");
      const made = await read(address, headers);
      if (mine !== asked) return false;
      form.removeAttribute("aria-busy");
      const main = made && made.getElementById("main");
      if (!main?.querySelector("[data-page-search]")) {
        otherwise();
        return false;
      }
      take(main, seqs, headers ? [] : holdBack(main));
      if (kept) history[kept](null, "", address);
      const foot = document.querySelector("#main :is(.card__foot > span, .empty :is(h2, h3))");
      if (foot && !headers) document.getElementById("announce").textContent = foot.textContent.trim();
      return true;
    }
    /* The box keeps the hand's letters and caret; what stands beside it and after the form is new. */
    function take(main, seqs, held) {
      const fresh = main.querySelector("[data-page-search]").form,
        keep = box.closest(".searchbox"),
        page = document.getElementById("main"),
        height = page.offsetHeight;
      if (document.activeElement !== box) box.value = main.querySelector("[data-page-search]").value;
      Tide.live.detach(page);
      for (const one of [...form.children]) if (one !== keep) one.remove();
      for (const one of [...fresh.children]) if (!one.querySelector("[data-page-search]")) form.append(one);
      while (form.nextSibling) form.nextSibling.remove();
      while (fresh.nextSibling) form.parentNode.append(fresh.nextSibling);
      const words = document.querySelector(".page__title p"),
        said = main.querySelector(".page__title p");
      if (words && said) words.replaceWith(said);
      begin(page, seqs, held, height);
    }
    /* What a hand is on stays: a link with the focus, a selection, an open menu, a word that is being typed. */
    function renew() {
      const main = document.getElementById("main"),
        isInHand =
          (document.activeElement !== box && main.contains(document.activeElement)) ||
          !getSelection().isCollapsed ||
          main.querySelector("details[open]");
      if (isInHand || timer || document.hidden) return;
      const across = main.querySelector(".tablewrap")?.scrollLeft;
      show(location.href, { headers: Tide.BY_TIMER, otherwise: () => {} }).then((isShown) => {
        if (isShown && across) main.querySelector(".tablewrap").scrollLeft = across;
      });
    }
    /* Most rows have messages of their own; an empty list has none of its first row. */
    const renews = box.dataset.renews;
    if (renews)
      Tide.live.on(`c/${document.documentElement.dataset.cluster}/collector`, (rows, message) => {
        const isDue =
          renews === "always" ? Date.now() - shownAt >= RENEWED_EVERY : document.querySelector("#main .empty");
        if (isDue && !message.full) renew();
      });
    async function turn(link) {
      const again = where(link),
        main = document.getElementById("main");
      if (!(await show(link.href, { kept: "pushState" }))) return;
      await frame();
      main.querySelector(again)?.focus(STILL);
      showFirstRow(main);
    }
    box.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(search, TYPED_AFTER);
    });
    document.addEventListener("click", (event) => {
      const link = event.target.closest("a");
      if (!isPlain(event)) return;
      if (!link?.matches(TURNS) || !link.closest("#main") || link.pathname !== location.pathname) return;
      event.preventDefault();
      turn(link);
    });
    addEventListener("popstate", () => show(location.href, { otherwise: () => location.reload() }));
  }
  const search = document.querySelector("[data-page-search][data-follow]");
  if (search) follow(search);
  /* Show what the page at an address has for a card; null where it has none, or another came first. */
  async function turnCard(card, address, headers) {
    const seqs = Tide.live.seqs(),
      made = await read(address, headers),
      fresh = made && made.getElementById(card.id),
      host = card.closest("[data-part]");
    if (!fresh || !card.isConnected) return null;
    const held = headers ? [] : holdBack(fresh),
      height = card.offsetHeight,
      attach = () => {
        Tide.live.detach(document); // its figures may be of a subject of the whole page
        Tide.live.attach(document, seqs);
      };
    Tide.live.detach(document);
    card.replaceWith(fresh);
    if (host) {
      const query = new URL(address, location).searchParams;
      query.set("part", new URL(host.dataset.part, location).searchParams.get("part"));
      host.dataset.part = `?${query}`;
    }
    begin(fresh, seqs, held, height).then(attach);
    return fresh;
  }
  /* A card whose rows are no longer all, unless the keyboard is in it: then behind a later round. */
  function renewCard(card, isOld) {
    if (isOld && !card.contains(document.activeElement)) turnCard(card, location.href, Tide.BY_TIMER);
  }
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a"),
      card = link?.closest("[data-turns]");
    if (!card || !link.matches(TURNS) || !isPlain(event)) return;
    event.preventDefault();
    const fresh = await turnCard(card, link.href);
    if (!fresh) return card.isConnected && location.assign(link.href);
    history.replaceState(null, "", link.href);
    await frame();
    fresh.querySelector(where(link))?.focus(STILL);
    showFirstRow(fresh);
  });

  /* ---- charts of history: drawn from the JSON beside them, and again with the readings since ---- */
  const DRAWN_EVERY = 30000;
  Tide.history = (canvas, source, build) => {
    const data = Tide.beginWithLine(build(JSON.parse(source.textContent))),
      plot = Tide.timeSeries(canvas, data);
    // as high before its line begins as with it: nothing moves then
    canvas.dataset.panels = data.panels.length;
    setInterval(async () => {
      if (document.hidden) return;
      const answer = await fetch(canvas.dataset.history, { headers: Tide.BY_TIMER }).catch(() => null);
      if (!answer?.ok || answer.redirected) return; // the next time tries again
      Object.assign(data, Tide.beginWithLine(build(await answer.json())));
      plot.paint();
    }, DRAWN_EVERY);
  };

  const parts = new Map([...document.querySelectorAll("[data-part]")].map((host) => [host, keep(host)]));
  document.addEventListener(
    "submit",
    async (event) => {
      const form = event.target,
        refresh = parts.get(form.closest("[data-part]"));
      if (!form.matches("form[data-quiet]") || !refresh) return;
      event.preventDefault();
      const answer = await fetch(form.action, { method: "POST", body: new FormData(form), redirect: "manual" }).catch(
        () => null,
      );
      if (!answer || (answer.type !== "opaqueredirect" && !answer.ok)) {
        Tide.say(gettext("The request did not reach the console"), gettext("Reload the page and try again."));
        return;
      }
      refresh();
    },
    true,
  );
})();
