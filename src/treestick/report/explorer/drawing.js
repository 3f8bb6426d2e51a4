"use strict";
// The drawing of the tree on a canvas: only what is in sight, and less of it the smaller it is.

const DETAILED_ZOOM = 0.42; // from here on with text
const CARD_ZOOM = 0.1; // from here on with pictures
const KNOB = 10; // radius
const PADDING = 6;

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
  view.width = canvas.clientWidth;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
}

function draw() {
  const { tree, layout } = app;
  if (!layout) return;
  const canvas = byId("canvas");
  const context = canvas.getContext("2d");
  const ratio = window.devicePixelRatio || 1;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  const sight = { right: canvas.clientWidth, bottom: canvas.clientHeight };
  drawEdges(context, tree, layout, sight);
  for (const card of layout.cards) {
    const x = screenX(card);
    const y = screenY(card);
    if (y > sight.bottom || y + card.height * view.k < -KNOB || x > sight.right || x + (CARD.width + 3 * KNOB) * view.k < 0) continue;
    // So that what is drawn at (card.x, card.y) comes to be there, in the size of the zoom.
    const scale = ratio * view.k;
    context.setTransform(scale, 0, 0, scale, ratio * x - scale * card.x, ratio * y - scale * card.y);
    drawCard(context, tree, card);
  }
}

function drawEdges(context, tree, layout, sight) {
  const thin = view.k < CARD_ZOOM;
  context.strokeStyle = colours.flow;
  context.lineWidth = 1;
  if (thin) context.beginPath();
  for (const card of layout.cards) {
    if (card.level === 0) continue;
    const above = layout.cardOf.get(tree.parent[card.node]);
    const x0 = screenX(above) + CARD.width * view.k;
    const y0 = screenY(above) + (above.height / 2) * view.k;
    const x1 = screenX(card);
    const y1 = screenY(card) + (card.height / 2) * view.k;
    if (x0 > sight.right || x1 < 0 || Math.min(y0, y1) > sight.bottom || Math.max(y0, y1) < 0) continue;
    if (!thin) {
      context.lineWidth = view.k * (1 + 13 * Math.sqrt(tree.through[card.node] / Math.max(contents.nData, 1)));
      context.globalAlpha = tree.support ? 0.25 + 0.75 * tree.support[card.node] : 1;
      context.beginPath();
    }
    const bend = (x1 - x0) * 0.55;
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    if (!thin) context.stroke();
  }
  if (thin) context.stroke();
  context.globalAlpha = 1;
}

function drawCard(context, tree, card) {
  const { node } = card;
  const chosen = node === app.selected;
  const found = app.found.get(node);
  const place = app.places.get(node);
  if (view.k < CARD_ZOOM && !chosen && !found && !place) {
    context.fillStyle = colours.accent;
    context.globalAlpha = 0.55;
    context.fillRect(card.x, card.y, Math.max(CARD.width, 4 / view.k), Math.max(card.height, 1 / view.k));
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
  if (CARD.tile) drawPictures(context, tree, card);
  drawBar(context, tree, card);
  if (view.k < DETAILED_ZOOM) return;
  drawWords(context, tree, card, found, place);
  if (tree.children[node].length) drawKnobs(context, tree, card);
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

// One picture that the model has of the node, or up to four images of its data.
function drawPictures(context, tree, card) {
  const side = CARD.width - 2 * PADDING;
  const x = card.x + PADDING;
  const y = card.y + PADDING;
  const sheet = tree.reference.pictures;
  if (sheet) {
    const bitmap = app.pictures[Math.floor(card.node / sheet.perSheet)];
    context.imageSmoothingEnabled = !sheet.exact;
    if (bitmap) drawTile(context, bitmap, placeOfTile(sheet, card.node), x, y, side);
    return;
  }
  const covers = contents.covers.sheet;
  const slots = coversOf(tree, card.node);
  const half = slots.length > 1 ? (side - 2) / 2 : side;
  context.imageSmoothingEnabled = !covers.exact;
  slots.forEach((slot, k) => {
    const bitmap = app.covers[Math.floor(slot / covers.perSheet)];
    const left = x + (k % 2) * (half + 2);
    const top = y + (k >> 1) * (half + 2);
    if (bitmap) drawTile(context, bitmap, placeOfTile(covers, slot), left, top, half);
  });
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

function drawWords(context, tree, card, found, place) {
  const label = tree.labels[card.node] || (CARD.tile && card.node ? String(card.node) : nameOf(tree, card.node));
  const left = card.x + (CARD.tile ? PADDING : 10);
  const right = card.x + CARD.width - (CARD.tile ? PADDING : 10);
  const top = CARD.tile ? card.y + card.height - 11 : card.y + 21;
  const bottom = CARD.tile ? top : card.y + 39;
  const [note, colour] = noteOf(tree, card.node, found, place);
  const end = CARD.tile || !tree.children[card.node].length ? right : right - 10;
  context.textBaseline = "alphabetic";
  context.textAlign = "right";
  context.font = "600 11px system-ui, sans-serif";
  context.fillStyle = colour;
  context.fillText(note, end, bottom);
  const room = end - left - (note ? context.measureText(note).width + 5 : 0);
  context.textAlign = "left";
  context.fillStyle = colours.ink;
  context.font = CARD.tile ? "600 11.5px system-ui, sans-serif" : "600 13px system-ui, sans-serif";
  context.fillText(fitText(context, label, CARD.tile ? room : right - left), left, top);
  if (CARD.tile) return;
  context.fillStyle = colours.dim;
  context.font = "11.5px system-ui, sans-serif";
  context.fillText(fitText(context, countsOf(tree, card.node), room), left, bottom);
}

function countsOf(tree, node) {
  if (!contents.nData) return `mass ${short(tree.mass[node])}`;
  const below = tree.through[node] - tree.here[node];
  return `${whole(tree.here[node])} here${below ? ` · ${whole(below)} below` : ""}`;
}

// What stands at the right of a card, and its colour: what the user asked for last comes first.
function noteOf(tree, node, found, place) {
  if (place !== undefined) return [percent(place), colours.warm];
  if (found) return [CARD.tile ? whole(found) : `${whole(found)} found`, colours.found];
  if (tree.support) return [percent(tree.support[node]), colours.dim];
  return [CARD.tile ? whole(tree.here[node]) : "", colours.dim];
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

// The signs at the right of a card: one folds and unfolds, one shows the children left out.
function knobsOf(tree, card) {
  const x = card.x + CARD.width;
  const y = card.y + card.height / 2;
  if (!card.shown.length) return [{ x, y, text: `+${whole(tree.within[card.node] - 1)}`, strong: true, act: toggleNode }];
  const knobs = [{ x, y, text: "–", strong: false, act: toggleNode }];
  if (card.more) knobs.push({ x, y: y + 2 * KNOB - 1, text: `+${whole(card.more.nodes)}`, strong: true, act: openAll });
  return knobs;
}

function drawKnobs(context, tree, card) {
  context.font = "600 10.5px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineWidth = 1;
  for (const { x, y, text, strong } of knobsOf(tree, card)) {
    const width = Math.max(2 * KNOB - 4, context.measureText(text).width + 9);
    context.fillStyle = strong ? colours["accent-soft"] : colours.card;
    context.strokeStyle = strong ? colours.accent : colours.line;
    context.beginPath();
    context.roundRect(x - width / 2, y - KNOB + 2, width, 2 * KNOB - 4, KNOB);
    context.fill();
    context.stroke();
    context.fillStyle = strong ? colours.accent : colours.dim;
    context.fillText(text, x, y + 0.5);
  }
  context.textAlign = "left";
}

// What is at a point of the window: { card, act }, where `act` is that of a knob, if it is one.
function hit(px, py) {
  const y = (py - view.y) / view.k;
  for (const card of app.layout.cards) {
    const x = card.x + (px - screenX(card)) / view.k;
    if (x < card.x || x > card.x + CARD.width + 24 || y < card.y - KNOB || y > card.y + card.height + KNOB) continue;
    if (app.tree.children[card.node].length && view.k >= DETAILED_ZOOM) {
      const knob = knobsOf(app.tree, card).find((one) => Math.abs(x - one.x) < KNOB + 6 && Math.abs(y - one.y) < KNOB);
      if (knob) return { card, act: knob.act };
    }
    if (x <= card.x + CARD.width && y >= card.y && y <= card.y + card.height) return { card, act: null };
  }
  return null;
}
