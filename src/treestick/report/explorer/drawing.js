"use strict";
// The drawing of the tree on a canvas: only what is in sight, and less of it the smaller it is.

const DETAILED_ZOOM = 0.42; // from here on with text
const CARD_ZOOM = 0.1; // from here on with pictures
const KNOB = 10; // radius
const PADDING = 5;

let drawRequested = false;
function requestDraw() {
  if (drawRequested) return;
  drawRequested = true;
  requestAnimationFrame(() => {
    drawRequested = false;
    draw();
  });
}

function fitCanvas() {
  const canvas = byId("canvas");
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
}

function draw() {
  const { tree, layout } = app;
  if (!layout) return;
  const canvas = byId("canvas");
  const context = canvas.getContext("2d");
  const ratio = window.devicePixelRatio || 1;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.setTransform(ratio * view.k, 0, 0, ratio * view.k, ratio * view.x, ratio * view.y);
  const sight = {
    left: -view.x / view.k,
    top: -view.y / view.k,
    right: (canvas.clientWidth - view.x) / view.k,
    bottom: (canvas.clientHeight - view.y) / view.k,
  };
  drawEdges(context, tree, layout, sight);
  for (const card of layout.cards) {
    if (card.y > sight.bottom || card.y + card.height < sight.top) continue;
    if (card.x > sight.right || card.x + CARD.width + 3 * KNOB < sight.left) continue;
    if (card.more) drawMore(context, card);
    else drawCard(context, tree, card);
  }
}

function drawEdges(context, tree, layout, sight) {
  const thin = view.k < CARD_ZOOM;
  context.strokeStyle = colours.flow;
  context.lineCap = "butt";
  if (thin) context.beginPath();
  for (const card of layout.cards) {
    if (card.level === 0) continue;
    const above = layout.cardOf.get(card.more ? card.node : tree.parent[card.node]);
    const x0 = above.x + CARD.width;
    const y0 = above.y + above.height / 2;
    const x1 = card.x;
    const y1 = card.y + card.height / 2;
    if (x0 > sight.right || x1 < sight.left) continue;
    if (Math.min(y0, y1) > sight.bottom || Math.max(y0, y1) < sight.top) continue;
    if (thin) {
      context.moveTo(x0, y0);
      context.lineTo(x1, y1);
      continue;
    }
    const data = card.more ? card.more.data : tree.through[card.node];
    context.lineWidth = 1 + 15 * Math.sqrt(data / Math.max(contents.nData, 1));
    context.globalAlpha = tree.support && !card.more ? 0.25 + 0.75 * tree.support[card.node] : 1;
    context.beginPath();
    context.moveTo(x0, y0);
    const bend = CARD.gapX * 0.55;
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    context.stroke();
    context.globalAlpha = 1;
  }
  if (thin) {
    context.lineWidth = 1 / view.k;
    context.stroke();
  }
}

function drawMore(context, card) {
  if (view.k < DETAILED_ZOOM) return;
  context.fillStyle = colours.dim;
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  const words = `+ ${plural(card.more.nodes, "node")} · ${whole(card.more.data)} data`;
  context.fillText(words, card.x + 8, card.y + card.height / 2);
}

function drawCard(context, tree, card) {
  const { node } = card;
  const chosen = node === app.selected;
  const found = app.found.get(node);
  const place = app.places.get(node);
  if (view.k < CARD_ZOOM && !chosen && !found && !place) {
    context.fillStyle = colours.accent;
    context.globalAlpha = 0.55;
    context.fillRect(card.x, card.y, Math.max(CARD.width, 1.5 / view.k), Math.max(card.height, 1 / view.k));
    context.globalAlpha = 1;
    return;
  }
  const border = chosen ? colours.accent : found ? colours.found : place ? colours.warm : colours.line;
  context.fillStyle = place ? colours["warm-soft"] : chosen ? colours["accent-soft"] : colours.card;
  context.strokeStyle = border;
  context.lineWidth = (chosen || found || place ? 2.5 : 1) / Math.min(view.k * 1.4, 1);
  context.beginPath();
  context.roundRect(card.x, card.y, CARD.width, card.height, 7);
  context.fill();
  context.stroke();
  const left = drawPictures(context, tree, card);
  drawBar(context, tree, card);
  if (view.k < DETAILED_ZOOM) return;
  drawWords(context, tree, card, left, found, place);
  if (tree.children[node].length) drawKnob(context, tree, card);
}

// The share of all data at or below the node, and in full colour what is right here.
function drawBar(context, tree, card) {
  const all = Math.max(contents.nData, 1);
  const x = card.x + PADDING;
  const y = card.y + card.height - 6;
  const room = CARD.width - 2 * PADDING;
  const width = (share) => (share > 0 ? Math.max(room * share, 1.5) : 0);
  context.fillStyle = colours.faint;
  context.fillRect(x, y, room, 2.5);
  context.fillStyle = colours.flow;
  context.fillRect(x, y, width(tree.through[card.node] / all), 2.5);
  context.fillStyle = colours.accent;
  context.fillRect(x, y, width(tree.here[card.node] / all), 2.5);
}

// Returns where text may begin.
function drawPictures(context, tree, card) {
  const side = CARD.strip ? (CARD.width - 5 * PADDING) / 4 : card.height - 2 * PADDING - 5;
  const sheet = tree.reference.pictures;
  context.imageSmoothingEnabled = !(sheet || contents.covers?.sheet)?.exact;
  if (sheet) {
    const bitmap = app.pictures[Math.floor(card.node / sheet.perSheet)];
    if (!bitmap) return card.x + 9;
    drawTile(context, bitmap, placeOfTile(sheet, card.node), card.x + PADDING, card.y + PADDING, side);
    return card.x + side + 2 * PADDING + 5;
  }
  if (CARD.strip) {
    coversOf(tree, card.node).forEach((slot, k) => {
      const covers = contents.covers.sheet;
      const bitmap = app.covers[Math.floor(slot / covers.perSheet)];
      const x = card.x + PADDING + k * (side + PADDING);
      if (bitmap) drawTile(context, bitmap, placeOfTile(covers, slot), x, card.y + PADDING, side);
    });
  }
  return card.x + 9;
}

function drawTile(context, bitmap, place, x, y, side) {
  const scale = side / Math.max(place.width, place.height);
  const width = place.width * scale;
  const height = place.height * scale;
  const left = x + (side - width) / 2;
  context.drawImage(bitmap, place.x, place.y, place.width, place.height, left, y + (side - height) / 2, width, height);
}

// Images that stand for a node: of its own data, else of those below.
function coversOf(tree, node) {
  if (!tree.coverLists) tree.coverLists = new Map();
  if (!tree.coverLists.has(node)) {
    const found = [];
    const lists = tree.here[node] > 0 ? [dataAt(tree, node)] : nodesBelow(tree, node).map((k) => dataAt(tree, k));
    for (const list of lists) {
      for (let k = 0; k < list.length && found.length < 4; k++) {
        const slot = app.coverSlot.get(list[k]);
        if (slot !== undefined) found.push(slot);
      }
    }
    tree.coverLists.set(node, found);
  }
  return tree.coverLists.get(node);
}

function drawWords(context, tree, card, left, found, place) {
  const { node } = card;
  const label = tree.labels[node];
  const here = tree.here[node];
  const below = tree.through[node] - here;
  const counts = contents.nData ? `${whole(here)} here${below ? ` · ${whole(below)} below` : ""}` : `mass ${short(tree.mass[node])}`;
  const right = card.x + CARD.width - 9;
  const note = place !== undefined ? percent(place) : found ? `${whole(found)} found` : supportOf(tree, node);
  context.textBaseline = "alphabetic";
  context.textAlign = "right";
  context.font = "600 11px system-ui, sans-serif";
  context.fillStyle = place !== undefined ? colours.warm : found ? colours.found : colours.dim;
  const top = CARD.strip ? card.y + card.height - 13 : card.y + 21;
  let room = right - left;
  if (note) {
    context.fillText(note, right, top);
    room -= context.measureText(note).width + 8;
  }
  context.textAlign = "left";
  if (CARD.strip) {
    context.fillStyle = colours.ink;
    context.font = "12px system-ui, sans-serif";
    context.fillText(fitText(context, label ? `${whole(here)} · ${label}` : counts, room), left, top);
    return;
  }
  context.fillStyle = colours.ink;
  context.font = "600 13px system-ui, sans-serif";
  context.fillText(fitText(context, label || nameOf(tree, node), room), left, top);
  context.fillStyle = colours.dim;
  context.font = "11.5px system-ui, sans-serif";
  context.fillText(fitText(context, counts, right - left), left, card.y + 38);
}

function supportOf(tree, node) {
  return tree.support ? percent(tree.support[node]) : "";
}

const fitted = new Map();
function fitText(context, text, room) {
  const key = `${context.font} ${Math.round(room)} ${text}`;
  if (!fitted.has(key)) {
    if (fitted.size > 20000) fitted.clear();
    let low = 0;
    let high = text.length;
    if (context.measureText(text).width > room) {
      while (low < high - 1) {
        const middle = (low + high) >> 1;
        if (context.measureText(`${text.slice(0, middle)}…`).width > room) high = middle;
        else low = middle;
      }
      fitted.set(key, `${text.slice(0, low)}…`);
    } else fitted.set(key, text);
  }
  return fitted.get(key);
}

function knobOf(card) {
  return { x: card.x + CARD.width, y: card.y + card.height / 2 };
}

function drawKnob(context, tree, card) {
  const { x, y } = knobOf(card);
  const open = isOpen(tree, card.node);
  context.font = "600 10.5px system-ui, sans-serif";
  const text = open ? "–" : `+${whole(tree.within[card.node] - 1)}`;
  const width = Math.max(2 * KNOB - 4, context.measureText(text).width + 10);
  context.fillStyle = open ? colours.card : colours.accent;
  context.strokeStyle = open ? colours.line : colours.accent;
  context.lineWidth = 1;
  context.beginPath();
  context.roundRect(x - width / 2, y - KNOB + 2, width, 2 * KNOB - 4, KNOB);
  context.fill();
  context.stroke();
  context.fillStyle = open ? colours.dim : colours.card;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, x, y + 0.5);
  context.textAlign = "left";
}

// What is at a point of the window: { card, knob }.
function hit(px, py) {
  const x = (px - view.x) / view.k;
  const y = (py - view.y) / view.k;
  for (const card of app.layout.cards) {
    const hasKnob = !card.more && app.tree.children[card.node].length > 0 && view.k >= DETAILED_ZOOM;
    if (hasKnob) {
      const knob = knobOf(card);
      if (Math.abs(x - knob.x) < KNOB + 6 && Math.abs(y - knob.y) < KNOB + 2) return { card, knob: true };
    }
    const inside = x >= card.x && x <= card.x + CARD.width && y >= card.y && y <= card.y + card.height;
    if (inside) return { card, knob: false };
  }
  return null;
}
