"use strict";
// The window on the drawing: a card at (x, y) of the layout is at (view.x + wide() x, view.y + k y),
// k times as large. Columns do not come closer than the window needs, so that a tree of thousands
// of leaves is not a line.

const view = { x: 0, y: 0, k: 1, width: 1 }; // width: of the window, which takes time to ask for
const SMALLEST_ZOOM = 0.002;
const LARGEST_ZOOM = 4;
const CLOSEST_COLUMNS = 0.35;
const MARGIN = 28;

// Above the drawing are the controls.
function topMargin() {
  return MARGIN + document.querySelector(".controls").offsetHeight;
}

const BOTTOM = 58; // and below it two lines of words

const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

function stageSize() {
  const canvas = byId("canvas");
  const panel = byId("panel");
  const covers = getComputedStyle(panel).position === "absolute" && panel.classList.contains("open");
  return { width: canvas.clientWidth, height: canvas.clientHeight - (covers ? panel.offsetHeight : 0) };
}

function wide(k = view.k) {
  const whole = (view.width - 2 * MARGIN) / app.layout.width;
  return Math.max(k, Math.min(CLOSEST_COLUMNS, whole));
}

// Where the upper left corner of a card is in the window.
function screenX(card) {
  return view.x + wide() * card.x;
}

function screenY(card) {
  return view.y + view.k * card.y;
}

function zoomAt(x, y, factor) {
  const k = Math.min(LARGEST_ZOOM, Math.max(SMALLEST_ZOOM, view.k * factor));
  view.x = x - ((x - view.x) * wide(k)) / wide();
  view.y = y - ((y - view.y) * k) / view.k;
  view.k = k;
  requestDraw();
}

function zoomMiddle(factor) {
  const { width, height } = stageSize();
  zoomAt(width / 2, height / 2, factor);
}

// Show all of the layout, but not smaller than `least`; then the root is what is shown.
function fit(layout, least = SMALLEST_ZOOM) {
  const { width, height } = stageSize();
  const whole = Math.min((width - 2 * MARGIN) / layout.width, (height - BOTTOM - topMargin()) / layout.height, 1.15);
  const k = Math.max(whole, least);
  const root = layout.cards[0];
  const middle = k > whole && layout.height * k > height ? root.y + root.height / 2 : layout.height / 2;
  const across = layout.width * wide(k);
  const x = across < width - 2 * MARGIN ? (width - across) / 2 : MARGIN;
  moveTo({ k, x, y: (height + topMargin() - BOTTOM) / 2 - middle * k });
}

// Bring a card into sight without more movement than needed.
function bringIntoSight(card) {
  const { width, height } = stageSize();
  const k = Math.max(view.k, CARD.readable);
  let { x, y } = view;
  if (k !== view.k) {
    x = width / 2 - card.x * wide(k) - (CARD.width / 2) * k;
    y = height / 2 - (card.y + card.height / 2) * k;
  }
  const left = x + card.x * wide(k);
  const top = y + card.y * k;
  x += Math.max(MARGIN - left, 0) || Math.min(width - MARGIN - (left + CARD.width * k), 0);
  y += Math.max(topMargin() - top, 0) || Math.min(height - BOTTOM - (top + card.height * k), 0);
  moveTo({ k, x, y });
}

let movement = 0;
function moveTo(target) {
  const start = { ...view };
  const began = performance.now();
  const number = ++movement;
  const duration = calm.matches || !app.ready ? 0 : 220;
  const step = (now) => {
    if (number !== movement) return;
    const t = duration ? Math.min((now - began) / duration, 1) : 1;
    const eased = 1 - (1 - t) ** 3;
    for (const name of ["x", "y", "k"]) view[name] = start[name] + (target[name] - start[name]) * eased;
    draw();
    if (t < 1) requestAnimationFrame(step);
  };
  step(began);
}

// -- pointers --------------------------------------------------------------------------------------

function listenToPointers(canvas, onClick, onDoubleClick, onHover) {
  const down = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    if (down.size === 0) moved = 0;
    down.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    movement++;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) {
      onHover(event.offsetX, event.offsetY);
      return;
    }
    const now = { x: event.offsetX, y: event.offsetY };
    const other = [...down.entries()].find(([id]) => id !== event.pointerId);
    if (other) {
      const [, fixed] = other;
      const factor = distance(now, fixed) / Math.max(distance(before, fixed), 1);
      zoomAt((now.x + fixed.x) / 2, (now.y + fixed.y) / 2, factor);
    }
    const share = other ? 0.5 : 1;
    view.x += (now.x - before.x) * share;
    view.y += (now.y - before.y) * share;
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    down.set(event.pointerId, now);
    if (moved > 5) canvas.classList.add("dragging");
    requestDraw();
  });
  const end = (event) => {
    down.delete(event.pointerId);
    canvas.classList.remove("dragging");
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("click", (event) => {
    if (moved <= 5) onClick(event.offsetX, event.offsetY);
  });
  canvas.addEventListener("dblclick", (event) => onDoubleClick(event.offsetX, event.offsetY));
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      movement++;
      const lines = event.deltaMode === 1 ? 20 : 1;
      if (event.shiftKey) {
        view.x -= (event.deltaX || event.deltaY) * lines;
        requestDraw();
      } else {
        zoomAt(event.offsetX, event.offsetY, Math.exp((-event.deltaY * lines) / (event.ctrlKey ? 120 : 500)));
      }
    },
    { passive: false },
  );
}

function distance(a, b) {
  return Math.hypot(a.x - b.x, a.y - b.y);
}
