// Follows drawing.js in one script.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);
const real = data.memory.length;
const several = hasHeads(data);
let shown = null;

function choose() {
  const view = document.querySelector("input[name=view]:checked").value;
  const head = byId("heads").querySelector("select");
  const attribution = byId("shown").querySelector("select").value ? data.attribution : null;
  head.disabled = view === "words" || Boolean(attribution);
  let names, matrix;
  if (view === "words") {
    const words = attribution ? data.attributed_words : data.words;
    [names, matrix] = [[words.source.map(named), words.target], words.weights];
  } else {
    names = [
      data.memory.pieces.slice(0, real).map(p => named(p.piece)),
      data.steps.map(step => named(step.writes.piece)),
    ];
    const of = step =>
      attribution
        ? step.attribution.data
        : head.value === "" || !several
          ? step.mean_weights.data
          : step.weights.data[Number(head.value)];
    matrix = data.steps.map(step => of(step).slice(0, real));
  }
  const marks = /[⇧⇪]/.test(names) ? ", ⇧ a capital, ⇪ a word in capitals" : "";
  byId("rule").textContent =
    view === "words"
      ? RULE + scale(attribution)
      : `Rows are target pieces, columns source pieces; ▁ begins a word${marks}. ` +
        `${attribution ? "" : "The softmax is over a row. "}${scale(attribution)}`;
  const places = {
    targets: byId("targets"),
    sources: byId("sources"),
    map: byId("map"),
    description: byId("description"),
  };
  shown = drawAttention(places, {
    sourceNames: names[0],
    targetNames: names[1],
    matrix,
    attribution,
    languages: [data.source_language, data.target_language],
  });
}

function start() {
  byId("source").textContent = data.source;
  byId("source").lang = data.source_language;
  byId("translation").textContent = data.translation;
  byId("translation").lang = data.target_language;
  const looked = data.steps
    .filter(step => step.looked)
    .map(step => step.number)
    .join(", ");
  const given = data.forced
    ? "translation given"
    : looked
      ? `what follows if the weights of step ${looked} are as given`
      : "translation found by the search";
  byId("model").textContent =
    `style ${data.model.style}, score ${data.model.score}: ` +
    `${data.model.formula.text} (${data.model.formula.source}); ${given}, ` +
    `log p = ${data.log_prob.toFixed(3)}`;
  for (const input of document.querySelectorAll("input[name=view]")) {
    input.checked = input.value === document.body.dataset.view;
    input.addEventListener("change", choose);
  }
  if (several) {
    byId("heads").hidden = false;
    const select = byId("heads").querySelector("select");
    append(
      select,
      make("option", "mean of all", {value: ""}),
      ...data.steps[0].weights.data.map((_, n) => make("option", n + 1, {value: n})),
    );
    select.addEventListener("change", choose);
  }
  const choices = [
    ...(data.words ? [["attention", ""]] : []),
    ...(data.attribution ? [[data.attribution.method, data.attribution.method]] : []),
  ];
  const select = byId("shown").querySelector("select");
  append(select, ...choices.map(([text, value]) => make("option", text, {value})));
  select.addEventListener("change", choose);
  byId("shown").hidden = choices.length < 2;
  document.addEventListener("keydown", event => {
    if (event.key === "Escape") shown.release();
  });
  byId("steps").append(...data.steps.map(step => stepDetails(data, step)));
  byId("memory").replaceChildren(memoryDetails(data));
  choose();
}
start();
