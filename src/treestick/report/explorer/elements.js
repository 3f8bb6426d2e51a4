"use strict";
// Elements, numbers and colours. Text is always set as text.

function byId(id) {
  return document.getElementById(id);
}

// make("button", { class: "link", onclick: f }, "text", child, ...)
function make(tag, attributes = {}, ...children) {
  const svg = SVG_TAGS.has(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element[name] = value;
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child !== null) element.append(child);
  return element;
}

const SVG_TAGS = new Set(["svg", "path", "line", "rect", "g", "circle"]);

// A name that a user gave: its direction is its own.
function named(text, tag = "span") {
  return make(tag, { dir: "auto", class: "name" }, text);
}

function isolated(text) {
  return `\u2068${text}\u2069`;
}

function cut(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

const WHOLE = new Intl.NumberFormat("en");
function whole(number) {
  return WHOLE.format(number);
}

function plural(number, one, many = `${one}s`) {
  return `${whole(number)} ${number === 1 ? one : many}`;
}

function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  const digits = share < 0.1 || (share > 0.99 && share < 1) ? 1 : 0;
  return `${(100 * share).toFixed(digits)} %`;
}

function short(number) {
  if (number === null) return "–";
  const size = Math.abs(number);
  if (size >= 1e5 || (size > 0 && size < 1e-3)) return number.toExponential(1);
  return String(Number(number.toPrecision(3)));
}

function say(text) {
  byId("said").textContent = text;
}

// Colours of the style sheet, for the canvas.
let colours = {};
function readColours() {
  const probe = make("span", { hidden: true });
  document.body.append(probe);
  colours = {};
  for (const name of ["paper", "card", "ink", "dim", "faint", "line", "accent", "accent-soft", "warm", "warm-soft", "flow", "found"]) {
    probe.style.color = `var(--${name})`;
    colours[name] = getComputedStyle(probe).color;
  }
  probe.remove();
}

// A canvas with one image, enlarged without blur where it is small.
function thumbnail(width, height, label) {
  const canvas = make("canvas", { class: "thumb", role: "img", "aria-label": label });
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  return canvas;
}

function paintTile(canvas, tile, exact) {
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = !exact;
  context.drawImage(tile.sheet, tile.x, tile.y, tile.width, tile.height, 0, 0, canvas.width, canvas.height);
}
