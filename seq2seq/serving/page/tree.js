// Draws the tree of a beam search: a node for each hypothesis that it ranked.
import {append, make, named, say, table} from "./drawing.js";

const WIDTH = 92; // pixels between steps
const HEIGHT = 36; // between hypotheses of a step
const RADIUS = 5; // of nodes
const BEND = 22; // from where edges leave the row of the parent
const UTF8 = new TextDecoder();

function draw(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// Adds to the nodes what drawing needs: depth, place among those of its depth, text, and best.
function arranged(tree) {
  const nodes = tree.map(node => ({...node, depth: 0, place: 0, best: false, text: ""}));
  nodes.forEach(node => {
    if (node.parent === null) return;
    const parent = nodes[node.parent];
    node.depth = parent.depth + 1;
    node.text = node.piece === "</s>" ? parent.text : parent.text + node.piece;
  });
  const finished = nodes.filter(node => node.status === "finished");
  const best = finished.reduce((a, b) => (b.score > a.score ? b : a), finished[0]);
  for (let node = best; node; node = nodes[node.parent]) node.best = true;
  const steps = Math.max(...nodes.map(node => node.depth));
  let rows = 1;
  // The translation is a straight line at the top, and siblings are side by side.
  for (let depth = 1; depth <= steps; depth++) {
    const step = nodes
      .filter(node => node.depth === depth)
      .sort(
        (a, b) => b.best - a.best || nodes[a.parent].place - nodes[b.parent].place || b.log_prob - a.log_prob,
      );
    step.forEach((node, place) => {
      node.place = place;
    });
    rows = Math.max(rows, step.length);
  }
  return {nodes, rows, best, steps};
}

// Decodes bytes, and puts capitals in place of their marks, as seq2seq/data/casing.py does.
const words = node =>
  node.text
    .replace(/(<0x..>)+/g, bytes => UTF8.decode(Uint8Array.from(bytes.match(/0x../g), Number)))
    .replaceAll("▁", " ")
    .trim()
    .replace(/ ?[ↄↃ]+$/, "")
    .replace(/ↃↃ (.*?)( ↄↄ|$)/g, (_, row) => row.toUpperCase())
    .replace(/Ↄ (\S*)/g, (_, word) => word.toUpperCase())
    .replace(/ↄ(.?)/gu, (_, letter) => letter.toUpperCase());

// Returns the elements that show a tree as JSON: a drawing, a slider over its steps, and a table.
export function drawTree(tree, language) {
  const {nodes, rows, best, steps} = arranged(tree);
  const [x, y] = [node => 24 + node.depth * WIDTH, node => 22 + node.place * HEIGHT];
  const svg = draw("svg", {
    width: x({depth: steps}) + WIDTH,
    height: 12 + rows * HEIGHT + 12,
    role: "img",
    "aria-label": say("{number} hypotheses in {steps} steps; the table below has those that were finished", {
      number: nodes.length - 1,
      steps,
    }),
  });
  const layers = nodes.slice(1).map(node => {
    const parent = nodes[node.parent];
    const state = `${node.status}${node.best ? " best" : ""}`;
    const [from, to] = [x(parent) + RADIUS, x(node) - RADIUS];
    const group = draw("g", {class: state});
    group.append(
      draw(
        "title",
        {},
        say("{words}: log p = {logProb}, score {score}, {status}", {
          words: words(node) || say("(empty)"),
          logProb: node.log_prob.toFixed(3),
          score: node.score.toFixed(3),
          status: say(node.status),
        }),
      ),
      draw("circle", {class: "node", cx: x(node), cy: y(node), r: RADIUS}),
      draw("text", {x: x(node) + RADIUS + 3, y: y(node) - 6}, named(node.piece)),
      draw("text", {class: "number", x: x(node) + RADIUS + 3, y: y(node) + 13}, node.log_prob.toFixed(2)),
    );
    const edge = draw("path", {
      class: `edge ${state}`,
      d:
        `M${from} ${y(parent)} H${to - BEND} C${to} ${y(parent)} ${to - BEND} ${y(node)} ` +
        `${to} ${y(node)}`,
    });
    return {node, parts: [edge, group]};
  });
  svg.append(
    draw("circle", {class: "node", cx: x(nodes[0]), cy: y(nodes[0]), r: RADIUS}),
    ...layers.map(({parts}) => parts[0]),
    ...layers.map(({parts}) => parts[1]),
  );

  const slider = make("input", null, {type: "range", min: 1, max: steps, value: steps});
  const count = make("span", null, {class: "number"});
  const show = () => {
    const shown = Number(slider.value);
    count.textContent = say("{shown} of {steps}", {shown, steps});
    layers.forEach(({node, parts}) =>
      parts.forEach(part => part.toggleAttribute("hidden", node.depth > shown)),
    );
  };
  slider.addEventListener("input", show);
  const play = make("button", say("Play"), {type: "button", class: "play"});
  play.addEventListener("click", () => {
    slider.value = 1;
    const timer = setInterval(() => {
      if (Number(slider.value) >= steps || !slider.isConnected) clearInterval(timer);
      else slider.value = Number(slider.value) + 1;
      show();
    }, 600);
    show();
  });
  show();

  const complete = nodes
    .filter(node => node.status === "finished")
    .sort((a, b) => b.score - a.score)
    .map(node => ({
      cells: [words(node), node.log_prob, node.score, node === best ? say("the translation") : ""],
    }));
  const finished = table([say("finished hypothesis"), "log p", say("score"), ""], complete);
  finished.querySelectorAll("tbody td:first-child").forEach(cell => {
    cell.lang = language;
  });
  return [
    append(
      make("div", null, {class: "grid"}),
      play,
      append(make("label", `${say("steps")} `), slider),
      count,
    ),
    make(
      "p",
      say(
        "Each step keeps the most likely hypotheses of all that the step before leads to. The numbers are log probabilities. Thick: the translation; green: finished; dashed: pruned.",
      ),
      {class: "small soft"},
    ),
    append(
      make("div", null, {class: "drawing", tabindex: "0", role: "region", "aria-label": say("tree")}),
      svg,
    ),
    finished,
  ];
}
