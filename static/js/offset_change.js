/* Offset change: one box per topic switches all its queues. */
(function () {
  "use strict";
  for (const scope of document.querySelectorAll("[data-scope]")) {
    const all = scope.querySelector("[data-all]"), boxes = [...scope.querySelectorAll("input[name=queue]")];
    const show = () => {
      const chosen = boxes.filter((box) => box.checked).length;
      all.checked = chosen === boxes.length;
      all.indeterminate = chosen > 0 && chosen < boxes.length;
    };
    all.addEventListener("change", () => { boxes.forEach((box) => { box.checked = all.checked; }); });
    boxes.forEach((box) => box.addEventListener("change", show));
    show();
  }
})();
